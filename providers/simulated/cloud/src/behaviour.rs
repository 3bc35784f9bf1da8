//! How the cloud behaves all the time, as opposed to at one request: lags, limits, lifetimes, paging.
//! The defaults are a kind and prompt cloud; each knob makes it like one that somebody reported a bug about.
//! All of it can be changed while the cloud runs and holds for requests that come after.

use serde::{Deserialize, Serialize};

/// The standing knobs. Times are milliseconds of the cloud's clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// How long an action runs. Zero: it is done when its answer leaves.
    pub action_ms: u64,
    /// A finished action is forgotten (404) after this.
    pub action_ttl_ms: Option<u64>,
    /// Answer 423 `locked` to an action on a server that has one running, instead of superseding it.
    pub lock_while_busy: bool,
    pub visibility: Visibility,
    pub idempotency: Idempotency,
    /// A second server of a name that exists is refused with 409 `uniqueness_error`.
    pub unique_names: bool,
    /// A new server gets the smallest id that was freed, as with numeric ids of small hypervisors.
    pub reuse_ids: bool,
    /// Only these images exist, if set; others are refused with 422 `image_not_found`.
    pub images: Option<Vec<String>>,
    pub limits: Limits,
    /// For how many seconds what `GET /v1/zones` says is worth knowing.
    pub offers_valid_s: u64,
    pub rate: Option<Rate>,
    pub lockout: Option<Lockout>,
    pub sessions: Sessions,
    pub paging: Paging,
    /// Added to the time in the `Date` header, and to nothing else.
    pub date_offset_ms: i64,
    pub user_data: UserData,
    /// Connections are reset as soon as they are made.
    pub offline: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            action_ms: 50,
            action_ttl_ms: None,
            lock_while_busy: false,
            visibility: Visibility::default(),
            idempotency: Idempotency::default(),
            unique_names: false,
            reuse_ids: false,
            images: None,
            limits: Limits::default(),
            offers_valid_s: 600,
            rate: None,
            lockout: None,
            sessions: Sessions::default(),
            paging: Paging::default(),
            date_offset_ms: 0,
            user_data: UserData::default(),
            offline: false,
        }
    }
}

/// Eventual consistency, of servers and of what is made beside them. A new server can be used by its id only once both limits of `get` have passed; a list shows
/// it once both limits of `list` have passed as well. `reads` counts attempts that would have seen it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Visibility {
    pub get_ms: u64,
    pub get_reads: u64,
    pub list_ms: u64,
    pub list_reads: u64,
    /// A server that is gone can still be read by id, with status `deleting`, for this long.
    pub deleted_get_ms: u64,
    /// A server that is gone is still listed, with status `deleting`, for this long.
    pub deleted_list_ms: u64,
}

/// What the header `Idempotency-Key` is worth. A key that comes back with another method, path or body is refused
/// with 409 `idempotency_mismatch`; an honoured repeat gets the first answer and `Idempotency-Replayed: true`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Idempotency {
    pub honoured: bool,
    /// A key is forgotten after this.
    pub expire_ms: Option<u64>,
}

impl Default for Idempotency {
    fn default() -> Self {
        Idempotency { honoured: true, expire_ms: None }
    }
}

/// Quota of the account and capacity of places.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Servers that may live at once.
    pub servers: Option<usize>,
    /// Volumes and network interfaces that may be there at once.
    pub volumes: Option<usize>,
    pub nics: Option<usize>,
    pub quota_status: u16,
    pub quota_code: String,
    /// The first entry that fits a (zone, type) counts.
    pub capacity: Vec<Capacity>,
    /// Clouds carry "no capacity" as 409, 412, 500 or 503.
    pub capacity_status: u16,
    pub capacity_code: String,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            servers: None,
            volumes: None,
            nics: None,
            quota_status: 403,
            quota_code: "quota_exceeded".into(),
            capacity: Vec::new(),
            capacity_status: 412,
            capacity_code: "no_capacity".into(),
        }
    }
}

/// Room for `max` live servers of a type in a zone; absent `zone` or `type` fits every one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    pub zone: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub max: usize,
    /// The entry holds until this time of the cloud's clock (milliseconds since the epoch), for ever if absent.
    pub until_ms: Option<i64>,
}

/// Fixed-window limiter of the account, shared by every client and by the noise of `POST /_sim/noise`. All answers
/// then carry `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rate {
    pub requests: u64,
    pub window_ms: u64,
    pub status: u16,
    pub retry_after: RetryAfter,
    /// `RateLimit-Reset` in Unix seconds (`true`) or in seconds from now (`false`).
    pub reset_unix: bool,
}

impl Default for Rate {
    fn default() -> Self {
        Rate {
            requests: 3600,
            window_ms: 3_600_000,
            status: 429,
            retry_after: RetryAfter::Seconds,
            reset_unix: true,
        }
    }
}

/// Form of `Retry-After` (RFC 9110 section 10.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    Seconds,
    Date,
    Absent,
}

/// After `after` failed authentications in a row every request is refused with 403 `account_locked`, right
/// credentials or wrong, for `for_ms`. What is refused while locked is counted apart.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lockout {
    pub after: u64,
    pub for_ms: u64,
}

/// The table of sessions; when it is full a login gets 503 `session_limit_exceeded`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    pub slots: usize,
    /// A session ends so long after its login.
    pub life_ms: Option<u64>,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions { slots: 8, life_ms: None }
    }
}

/// Paging of `GET /v1/servers`. Without a forced size a page holds `per_page` (default 25, at most 50).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Paging {
    pub force_size: Option<usize>,
    pub last: LastPage,
    /// Every second page is empty, and names a next one all the same.
    pub short_pages: bool,
}

/// How `next_page` of the last page looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastPage {
    #[default]
    Null,
    Empty,
    Absent,
    /// The last page names itself as the next one: a client without a loop guard never ends.
    Repeat,
}

/// Rules for `user_data`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserData {
    /// Bytes allowed of the text as it was received; more is refused with 422 `user_data_too_long`.
    pub limit: usize,
    /// The text must be base64, and is decoded exactly once before it reaches the machine.
    pub base64: bool,
}

impl Default for UserData {
    fn default() -> Self {
        UserData { limit: 32 * 1024, base64: false }
    }
}
