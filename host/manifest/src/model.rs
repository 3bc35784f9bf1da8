//! The checked manifest: plain data, in the words of the grammar.
//!
//! Everything here is public and serialisable, since the host hands declarations between its rooms as messages. A
//! value that came out of the parser obeys the loader rules; nothing else should construct one outside tests.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A whole manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub provider: Provider,
    /// By operation kind, for example `HostReboot`.
    pub operations: BTreeMap<String, Operation>,
    /// By credential key.
    pub credentials: BTreeMap<String, CredentialKey>,
    pub endpoints: BTreeMap<String, Endpoint>,
    pub calls: BTreeMap<String, Call>,
    /// SHA-256 of the canonical manifest without its version, lower-case hex: what an operator approves.
    pub call_set: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provider {
    pub name: String,
    pub version: semver::Version,
    /// Contract version, `"0.1"`.
    pub contract: String,
    /// Version of the resume tokens that this module writes.
    pub state_version: u32,
    /// Versions of resume tokens that it understands; always holds `state_version`.
    pub reads: BTreeSet<u32>,
    /// The provider-owned machine object that `machineRef` may name (R2.16).
    pub machine_kind: Option<GroupKind>,
    /// The read that lists everything under our marker.
    pub list_owned: Option<String>,
    /// Further values for `on`: resource kind to the place in the machine object (`machine-object:/ptr`).
    pub targets: BTreeMap<String, Pointer>,
    pub provider_id: Option<ProviderIdPattern>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

/// `hcloud://{server}`: literals and holes in turn. A hole holds no `/` and is followed by a literal or the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderIdPattern {
    /// The pattern as written.
    pub text: String,
    pub parts: Vec<PatternPart>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PatternPart {
    Literal(String),
    /// Resource kind.
    Hole(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    Immediate,
    LongRunning,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub mode: Mode,
    /// May an immediate operation be executed again after a crash (R2.11)?
    pub replay_safe: bool,
    pub requires_replace_user_data: bool,
    /// Does the module want `cleanup` called once the result is applied?
    pub cleanup: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialKey {
    pub required: bool,
    pub about: String,
    /// A name or id that replies may repeat: not scanned for, and may be short.
    pub public: bool,
    pub kind: CredentialKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialKind {
    Text,
    Pem,
    /// Split by the host: derived key to place in the file.
    JsonFile {
        from_file: BTreeMap<String, Pointer>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    pub about: String,
    pub per: Per,
    /// Names of values that the operator gives with the binding.
    pub vars: Vec<String>,
    /// Named alternatives; a manifest that writes one `auth` has the single name `default`.
    pub auth: BTreeMap<String, Auth>,
    /// Constants on each call.
    pub headers: Vec<(String, String)>,
    /// Where an error word may stand, in order of preference.
    pub error_code: Vec<Place>,
    /// Prefix to namespace URI, `default` for names without a prefix; empty: local names alone count.
    pub xmlns: BTreeMap<String, String>,
    pub throttle: Option<Throttle>,
    pub answers: Answers,
}

/// What chooses the binding of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Per {
    /// One binding for the provider and site.
    None,
    /// One per value of this key of the class's configuration.
    Config(String),
    /// One per machine: the address and the credential's name stand in the machine object.
    Machine { address: Pointer, credential: Option<Pointer> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    /// Response header names.
    pub remaining: String,
    pub reset: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Auth {
    /// Written out as `"none"`.
    None,
    /// Request headers from credentials.
    Put { put: Vec<(Place, Format)> },
    /// A host-run login; headers from its captures.
    Session { login: String, put: Vec<(Place, Format)>, life: Life, logout: Option<String> },
    /// Every request is signed by AWS Signature Version 4; the secret key itself is never sent.
    Sigv4(Sigv4),
}

/// Whose signature, for which scope (attack 46: never the guest's choice).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sigv4 {
    /// `[a-z0-9-]{1,32}`, for example `ec2`.
    pub service: String,
    pub region: Region,
    /// Credential keys: the access key's id, the secret access key, and a session token where the account has one.
    pub id: String,
    pub secret: String,
    pub session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Region {
    Literal(String),
    /// A variable of the operator's binding.
    Binding(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    Seconds(u64),
    /// A time or a number of seconds in the login's reply, less a margin in seconds.
    At {
        at: Place,
        less: u64,
    },
}

/// Literal text with holes. `Basic {base64(user:password)}` is `[Text("Basic "), Base64([Hole, Text, Hole])]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format(pub Vec<FormatPart>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FormatPart {
    Text(String),
    /// A credential key, or a capture of the login.
    Hole(String),
    /// Standard base64 of the parts.
    Base64(Vec<FormatPart>),
}

/// What a call does, whatever its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectKind {
    Read,
    Create,
    Update,
    Destroy,
    /// Run by the host only (login, logout).
    Session,
}

impl EffectKind {
    /// Does it change the outside world (and so need the journal)?
    pub fn mutates(self) -> bool {
        matches!(self, EffectKind::Create | EffectKind::Update | EffectKind::Destroy)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub name: String,
    pub endpoint: String,
    pub effect: EffectKind,
    pub method: Method,
    /// `None` for calls whose whole target is a sealed value (`at = "url"`).
    pub path: Option<PathTemplate>,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    pub reply: ReplyKind,
    /// Bytes; a longer reply is refused whole.
    pub max_reply: u64,
    /// Accepted status codes.
    pub accept: Vec<u16>,
    /// `Some` on mutations (L2).
    pub replay: Option<Replay>,
    pub pages: Option<Pages>,
    pub args: BTreeMap<String, Arg>,
    pub slots: BTreeMap<String, Slot>,
    pub captures: BTreeMap<String, Capture>,
    pub fields: BTreeMap<String, Field>,
    /// Own answers merged over those of the endpoint; look up with [`Answers::classify`].
    pub answers: Answers,
    /// Resource kind to where its id stands.
    pub creates: BTreeMap<String, CreatedAt>,
    pub adopts: BTreeMap<String, Adopt>,
    /// By the name of the create call that this read completes.
    pub completes: BTreeMap<String, Completes>,
    /// Resource kind to the field that tells one bearer of an id from the next (field case A29).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub incarnation: BTreeMap<String, Vec<String>>,
    /// Of a destroy: the read by which the host makes sure that its target is the one that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
}

/// `/redfish/v1/Systems/{id}?x=y`: percent-encoded literals and holes in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTemplate {
    pub text: String,
    pub parts: Vec<PathPart>,
    /// Constant query, without `?`.
    pub query: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathPart {
    Literal(String),
    /// Filled by the one argument (or slot) whose place is `path:NAME`.
    Hole(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Body {
    None,
    /// Parsed skeleton; duplicate keys were refused.
    Json(serde_json::Value),
    /// Decoded pairs in order.
    Form(Vec<(String, String)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyKind {
    Json,
    Xml,
    None,
}

/// How a mutating call goes on when its answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replay {
    /// The service de-duplicates by token for `life` seconds; after that the lookup decides, if there is one.
    Token {
        life: u64,
        lookup: Option<Lookup>,
    },
    Idempotent,
    Lookup(Lookup),
    /// Never sent again: a person settles it (`OutcomeUnknown`).
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// A read with an argument `from = "token"`.
    pub call: String,
    /// Its list field; exactly one item is the effect. `self`: the reply itself is the item, absence is `gone`.
    pub item: String,
    /// Seconds after the send from which an empty answer means that nothing happened.
    pub absent_after: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// The list field that grows.
    pub items: String,
    pub next: NextPage,
    /// Where the next page's token goes: a request place, or [`Place::Url`].
    pub into: Place,
    pub max_pages: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NextPage {
    Token(Place),
    /// Page number and number of pages.
    Count {
        page: Place,
        of: Place,
    },
}

/// What fills a place of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arg {
    pub at: Vec<Place>,
    pub from: Source,
    pub ty: Type,
    /// Allowed words, instead of a type; empty otherwise.
    pub one_of: Vec<String>,
    pub format: ArgFormat,
    pub write_as: WriteAs,
    pub optional: bool,
    /// Resource kind that the value must be a target of (L3, hole H4).
    pub on: Option<String>,
}

impl Arg {
    /// A place with `*` takes a list of values.
    pub fn is_list(&self) -> bool {
        self.at.iter().any(Place::is_list)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Guest,
    /// Token of the `perform` key; in a read the guest gives the key's name.
    Token,
    HostImage,
    HostName,
    OfferingInstanceType,
    OfferingZone,
    Config(String),
    Binding(String),
    /// A value that this operation's `call` returned in `field` (sealed or recorded); in session calls a capture.
    Field {
        call: String,
        field: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgFormat {
    /// Text with one `{}`; the plain `{}` is `("", "")`.
    Around(String, String),
    /// The token as a UUID.
    Uuid,
    /// The token as a number in this range, both ends included.
    Int(u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteAs {
    String,
    Int,
    Bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    pub kind: SlotKind,
    pub at: Place,
    /// In order; empty never (default `[Utf8]`).
    pub encode: Vec<Encoding>,
    /// Bytes.
    pub max_bytes: Option<u64>,
    pub max_of: MaxOf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotKind {
    UserData,
    /// From credentials: `key = "K"` is the format of the single hole `{K}`.
    Credential(Format),
    Generated {
        length: u32,
        alphabet: Alphabet,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alphabet {
    /// Upper, lower, digits, and `-_.`; at least one of each class.
    Mixed,
    Alnum,
    Hex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    Utf8,
    Gzip,
    Base64,
    Base64url,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MaxOf {
    Plain,
    Encoded,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    pub at: Place,
    pub optional: bool,
    pub to: CaptureTo,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CaptureTo {
    /// Kept by the host for the session's `put` and logout.
    Session,
    /// Made by the service; scanned for, then forgotten.
    Scan,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// First present wins.
    pub at: Vec<Place>,
    /// The type of a scalar, or of each element where the place has `*`; unused when `each` is given.
    pub ty: Type,
    /// Longest accepted text in bytes, where narrower than the type's own.
    pub max: Option<u32>,
    /// Most elements of a list; a longer one does not fit. Always there for lists of calls that change something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u32>,
    pub optional: bool,
    /// Literal before and after the hole of `match`.
    pub matches: Option<(String, String)>,
    /// Path glob that a sealed URL must lie under.
    pub within: Option<String>,
    /// Table of fields of each element; inner places are relative.
    pub each: Option<BTreeMap<String, Field>>,
}

impl Field {
    /// Is the projected value a JSON array?
    pub fn is_list(&self) -> bool {
        self.each.is_some() || self.at.iter().any(Place::is_list)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Type {
    /// `[A-Za-z0-9._:@!~+=,-]{1,256}`, not `.` or `..`; a JSON integer is allowed and becomes its text.
    Id,
    /// Ids joined by `/`.
    Path,
    /// `[A-Za-z][A-Za-z0-9_.-]{0,63}`
    Word,
    Int,
    Bool,
    Ip,
    Mac,
    /// RFC 3339.
    Time,
    /// Bytes, or a number with a binary or decimal unit.
    Size,
    /// Printable, at most this many bytes (N ≤ 512); scanned.
    Text(u16),
    /// Anything up to 4 KiB, encrypted to the operation and the field it came from.
    Sealed,
}

/// Answers that are not plain success. Keys are a status, a word, or `"403 Word"`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Nothing happened: key to error code.
    pub rejects: BTreeMap<AnswerKey, String>,
    /// Unclear: in doubt.
    pub fails: BTreeMap<AnswerKey, String>,
    /// Not there.
    pub gone: BTreeSet<AnswerKey>,
}

/// Serialised as its text (`"403 Word"`), so that it can be the key of a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnswerKey {
    pub status: Option<u16>,
    pub word: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CreatedAt {
    /// Field path: `instances/*/id`.
    Field(Vec<String>),
    /// `args.A`, an argument that the host derived from the token.
    Arg(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopt {
    pub field: Vec<String>,
    /// Field of the same item that must equal the allocation's token.
    pub proof: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completes {
    /// Argument of this read that must be the field recorded for the create.
    pub arg: String,
    pub when: Option<CompletesWhen>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletesWhen {
    pub field: String,
    pub is: String,
}

/// A location in a request or reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    Path(String),
    Query(String),
    /// Lower-case header name.
    Header(String),
    /// Form key; a `*` in it stands for 1, 2, … of a list.
    Form(String),
    Json(Pointer),
    /// Elements by name from the root on, in a reply only; a name may have a prefix of the endpoint's `xmlns`.
    Xml(Pointer),
    /// The whole request target; sealed values only.
    Url,
}

impl Place {
    pub fn is_list(&self) -> bool {
        match self {
            Place::Form(key) => key.contains('*'),
            Place::Json(pointer) | Place::Xml(pointer) => pointer.0.contains(&Step::Every),
            _ => false,
        }
    }
}

/// JSON pointer with `*` and `[k=literal]` as further steps. Empty is the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pointer(pub Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Member of an object, or, where digits only, also index of an array. Unescaped (`~1`, `~0`).
    Key(String),
    /// Every element; at the end of a request place: append after the fixed elements.
    Every,
    /// Elements whose member equals the literal.
    Where { key: String, is: String },
}
