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

    /// The lists that a field path goes through, outermost first.
    pub fn lists_on<'a>(&'a self, path: &'a [String]) -> impl Iterator<Item = &'a Field> {
        let prefixes = (1..=path.len()).filter(|end| path[end - 1] != "*").map(|end| &path[..end]);
        prefixes.filter_map(|prefix| self.field_at(prefix)).filter(|field| field.is_list())
    }

    /// Most values that a field path may lead to: the product of its lists' `max-items`; 1 without lists.
    pub fn most_of(&self, path: &[String]) -> u64 {
        self.lists_on(path)
            .map(|list| list.max_items.map_or(u64::from(u32::MAX), u64::from))
            .fold(1, u64::saturating_mul)
    }

    /// Must each item of the outermost list on this path bear the call's token (hole H3)? Its field is then named
    /// [`TOKEN_FIELD`](crate::TOKEN_FIELD).
    pub fn wants_evidence(&self, path: &[String]) -> bool {
        self.effect == EffectKind::Create && self.most_of(path) > 1
    }

    /// Names and slots of first-boot data.
    pub fn user_data_slots(&self) -> impl Iterator<Item = (&String, &Slot)> {
        self.slots.iter().filter(|(_, slot)| slot.kind == SlotKind::UserData)
    }

    pub fn has_user_data(&self) -> bool {
        self.user_data_slots().next().is_some()
    }

    /// The argument by which a read shows one thing, and the kind of that: its only mandatory one of the guest with `on`.
    pub fn confirming(&self) -> Option<(&str, &str)> {
        let aimed = |arg: &Arg| arg.from == Source::Guest && !arg.optional && arg.on.is_some();
        let mut found = self.args.iter().filter(|(_, arg)| aimed(arg));
        match (found.next(), found.next()) {
            (Some((name, arg)), None) => Some((name.as_str(), arg.on.as_deref()?)),
            _ => None,
        }
    }

    /// The kinds of things that it records as made.
    pub fn makes(&self, kind: &str) -> bool {
        self.creates.contains_key(kind) || self.adopts.contains_key(kind)
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
