//! The effect journal as it is kept in an operation's status: one entry for each remote change.
//!
//! An entry is written before anything leaves the daemon; the write is the fence. Values are bounded, and
//! nothing here is secret: spliced data is known by its keyed fingerprint alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::shared::{Time, any_object};

/// One remote change: what was meant, whether it happened, and how that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// The key under which the provider asked for the change; unique within the operation.
    pub key: String,
    /// Name of the declared call.
    pub call: String,
    /// What the call does to the outside world.
    pub effect: EffectKind,
    /// The binding (provider, endpoint, site) that the call goes through.
    pub binding: String,
    /// Where the binding pointed when the request left: origin, base path and variables. An effect in doubt is repeated
    /// and looked for only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Keyed fingerprint of the request, secret values included. A repeat must have the same one.
    pub fingerprint: String,
    /// Keyed fingerprint of what is wanted: the arguments, without versions of the target that a repeat may renew. A
    /// repeat of an idempotent update must have the same one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub aim: String,
    /// The token by which the server recognises a repeat.
    #[serde(default)]
    pub token: String,
    /// How often the request may have left the daemon.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempts: i32,
    /// Lease epoch of the daemon that wrote the intent.
    #[serde(default)]
    pub epoch: i64,
    /// How far the effect is.
    pub state: EffectState,
    /// When the latest attempt was intended.
    pub intended_at: Time,
    /// When the first attempt was intended. The life of the token counts from here.
    pub first_intended_at: Time,
    /// When the outcome became known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Time>,
    /// How the outcome became known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<SettledBy>,
    /// The projected reply of a change that happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// Why a change was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// Identities that the change created, as the manifest declares them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<CreatedResource>,
    /// What an update or destroy is aimed at. A destroy that happened has released these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<CreatedResource>,
    /// Since when a lookup has found nothing. Absence counts only after the visibility lag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_since: Option<Time>,
}

/// What a call does to the outside world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EffectKind {
    /// Makes something new.
    Create,
    /// Changes what is there.
    Update,
    /// Removes what is there.
    Destroy,
}

/// How far an effect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EffectState {
    /// Meant, and perhaps sent: the outcome is not known.
    Intended,
    /// It happened.
    Done,
    /// It was refused: nothing happened.
    Rejected,
    /// A person gave up on it: it counts as neither.
    Abandoned,
}

/// How the outcome of an effect became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SettledBy {
    /// By the answer to the request itself.
    Answer,
    /// By the declared lookup.
    Lookup,
    /// By the answer to a repeat that the server recognised.
    Repeat,
    /// By a person, through `spec.resolve`.
    Operator,
}

/// The projected reply of a change that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// HTTP status of the reply.
    pub status: i32,
    /// The declared fields of the reply, by name. At most 4 KiB.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub fields: Map<String, Value>,
}

/// Why a change was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The contract's code, for example `quota-exceeded`.
    pub code: String,
    /// Reason, in CamelCase.
    pub reason: String,
    /// One sentence for a person.
    pub message: String,
    /// The service's own error word, if the manifest lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
}

/// An identity that a change created, or is aimed at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedResource {
    /// The binding through which it was created.
    pub binding: String,
    /// Kind of the resource, in the provider's own words.
    pub kind: String,
    /// The provider's own identity of the resource.
    pub id: String,
    /// Where the binding pointed when it was created: origin, base path and variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What tells it from another that is given the same id later, where the manifest names that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
}
