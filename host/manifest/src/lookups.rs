//! Questions that the rooms of the host ask a checked manifest.

use crate::model::*;

impl Arg {
    /// Does the guest's argument object hold this argument? Its own (`from = "guest"`), the key's name of a token in a
    /// read, and values of an earlier call's field, which the guest carries and the host checks. Everything else comes
    /// from the host.
    pub fn is_given(&self, effect: EffectKind) -> bool {
        match self.from {
            Source::Guest => true,
            Source::Token => effect == EffectKind::Read,
            Source::Field { .. } => effect != EffectKind::Session,
            _ => false,
        }
    }
}

impl Call {
    /// The field at a path like `instances/*/id`: `*` after every list, except after one of scalars' last name.
    pub fn field_at(&self, path: &[String]) -> Option<&Field> {
        let (first, rest) = path.split_first()?;
        walk(self.fields.get(first)?, rest)
    }

    /// Names and slots of first-boot data.
    pub fn user_data_slots(&self) -> impl Iterator<Item = (&String, &Slot)> {
        self.slots.iter().filter(|(_, slot)| slot.kind == SlotKind::UserData)
    }

    pub fn has_user_data(&self) -> bool {
        self.user_data_slots().next().is_some()
    }

    /// Its lookup, whichever replay names it.
    pub fn lookup(&self) -> Option<&Lookup> {
        match self.replay.as_ref()? {
            Replay::Lookup(lookup) => Some(lookup),
            Replay::Token { lookup, .. } => lookup.as_ref(),
            Replay::Idempotent | Replay::Never => None,
        }
    }
}

/// The list's own `*` is written before what lies inside an element, and after a list of scalars.
fn walk<'a>(field: &'a Field, rest: &[String]) -> Option<&'a Field> {
    match (rest, &field.each) {
        ([], _) => Some(field),
        ([star], None) if star == "*" && field.is_list() => Some(field),
        ([star, name, rest @ ..], Some(each)) if star == "*" => walk(each.get(name)?, rest),
        _ => None,
    }
}

impl Endpoint {
    /// Does any of its alternatives need credentials?
    pub fn authenticates(&self) -> bool {
        self.auth.values().any(|auth| *auth != Auth::None)
    }
}

impl Manifest {
    /// Must a guest present its credentials with this call?
    pub fn needs_credentials(&self, call: &Call) -> bool {
        let by_slot = call.slots.values().any(|slot| matches!(slot.kind, SlotKind::Credential(_)));
        by_slot || self.endpoints.get(&call.endpoint).is_some_and(Endpoint::authenticates)
    }
}
