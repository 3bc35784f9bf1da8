//! A machine cloud that does not exist: an HTTPS service that behaves like a cloud's API, badly on request.
//! The demo, the crash sweep, the canary tests and the benches of Holdfast run against it. It keeps a ledger of
//! *effects*, which is what they are judged by: no twin, no leak.
//!
//! In process: [`Cloud::start`]. As a process of its own: `holdfast-simulated-cloud --state-dir DIR`, driven over
//! the admin API. TLS always, HTTP/1.1 with keep-alive, under a CA made per run.
//!
//! # Data API
//!
//! Authentication is `Authorization: Bearer TOKEN` or `X-Session-Token: TOKEN`; `POST /v1/sessions` and the echo
//! endpoint need none. Bodies and answers are JSON, with members in snake case; a body must have `Content-Type:
//! application/json`, and one with an unknown member is refused. A refusal is
//! `{"error":{"code":"word","message":"text"}}`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /v1/servers?name=&label=&page=&per_page=` | 200 `{servers:[SERVER], meta:{pagination:{page, per_page, next_page}}}`; `label` compares with `labels.holdfast` |
//! | `POST /v1/servers` `{name, image, type?, zone?, user_data?, labels?, start_after_create?}` | 201 `{server, action, root_password}` |
//! | `GET /v1/servers/{id}` | 200 `{server}` and header `ETag` |
//! | `DELETE /v1/servers/{id}` | 200 `{action}`; while it runs the same action again |
//! | `POST /v1/servers/{id}/replace` `{name?, image?, user_data?, labels?}` | 201 `{server, action, root_password}`: a new server; the old one stays until it is deleted |
//! | `POST /v1/servers/{id}/actions/C` for `power_on`, `power_off`, `shutdown`, `reset` | 201 `{action}`; no body is needed |
//! | `POST /v1/servers/{id}/actions/rebuild` `{image?, user_data?}` | 201 `{action}` |
//! | `GET /v1/actions/{id}` | 200 `{action}` |
//! | `GET /v1/servers/{id}/user_data` | 200 `{user_data}`: a trap; no provider may declare it (L9) |
//! | `GET /v1/types` | 200 `{types:[{name, cpus, memory_mib, price_micros_per_hour}]}` |
//! | `GET /v1/zones` | 200 `{zones:[{name, capacity:[{type, left}]}], valid_seconds}`; `left` is null where nothing bounds it |
//! | `POST /v1/volumes` `{name, size_gib, zone?, labels?, server?}` | 201 `{volume}`; `server` attaches it |
//! | `POST /v1/nics` `{name, zone?, labels?, server?}` | 201 `{nic}` |
//! | `GET /v1/volumes?label=&after=`, `GET /v1/nics?…` | 200 `{volumes:[PART], meta:{next}}`; `after` takes `next` |
//! | `GET`, `DELETE /v1/volumes/{id}`, `/v1/nics/{id}` | 200 `{volume}` or `{nic}`; 204, or 409 `in_use` while it is attached |
//! | `GET /v1/resources?managed_by=&after=&per_page=` | 200 `{resources:[{servers:[SERVER], volumes:[PART], nics:[PART]}], meta:{next}}`: what has this label `managed-by`, one resource an item, at most 500 a page |
//! | `POST /v1/sessions` `{user, password}` | 201 `{session:{id}}`, headers `X-Session-Token` and `Location` |
//! | `DELETE /v1/sessions/{id}` | 204 |
//! | `GET`, `POST`, `PUT /v1/echo` | see below |
//!
//! SERVER is `{id: "srv-N", name, status, power_generation, boots, image, type, zone, labels, created_at, etag}`.
//! `status` is `running`, `off`, `starting`, `stopping`, `rebuilding`, `deleting` or `error`; `power_generation`
//! counts power-ons and `boots` counts boots (power-ons, resets, rebuilds), both when they are done. An action is
//! `{id: "act-N", command, server, status, progress, error?: {code, message}}` with status `running`, `success` or
//! `error`; an action that a later one overtakes ends in `error` with code `superseded`.
//!
//! PART is `{id: "vol-N" or "nic-N", name, status, zone, labels, server, created_at}` and of a volume `size_gib`. It
//! outlives its server unless it is deleted, which it can be once the server is gone.
//!
//! `power_on` of a server that is on, and `power_off` or `shutdown` of one that is off, succeed without effect.
//! `reset` is an effect each time, and refused with 409 `server_off` when there is nothing to reset.
//!
//! Every mutation takes `Idempotency-Key` (see [`Idempotency`]), and those of a server take `If-Match`.
//!
//! Codes: 400 `json_error`; 401 `unauthorized`; 403 `account_locked`, `quota_exceeded`; 404 `not_found`;
//! 405 `method_not_allowed`; 409 `uniqueness_error`, `idempotency_mismatch`, `conflict`, `server_off`, `in_use`; 412
//! `precondition_failed`, `no_capacity`; 413 `body_too_large`; 415 `unsupported_media_type`; 422
//! `invalid_input`, `image_not_found`, `user_data_too_long`, `user_data_encoding`; 423 `locked`; 429
//! `rate_limited`; 503 `session_limit_exceeded`. With each of them nothing happened.
//!
//! # Echo
//!
//! `/v1/echo?as=FORM&what=WHAT&status=CODE&reply=KIND` gives back what it was sent. FORM is one of [`ENCODINGS`]
//! (default `raw`) or `all`; WHAT is `all`, `authorization`, `credential`, `session`, `body` or `json:/pointer`; KIND is
//! `json`, `text` or `gzip`. The text stands in the members `echo`, `id`, `text`, `nested.list[0].id`, for a status of
//! 400 and more in `error.code` and `error.message`, and in the headers `ETag`, `Location` and `X-Echo`. For
//! `json-u` and `json-slash` the member `wire` holds it escaped, so that it is plain after JSON is read.
//! The member `echo` of a [`Fault`] does the same to the answer of any other call.
//!
//! # Admin API
//!
//! Under `/_sim/` with the admin token; never subject to faults, limits or the record.
//!
//! | request | what it does |
//! | --- | --- |
//! | `GET ledger` | [`Ledger`] |
//! | `GET requests` | `{requests:[`[`Recorded`]`], counts:{route: n}}` |
//! | `GET faults`, `POST faults` | `{rules:[`[`RuleState`]`], behaviour}`; `{rules?:[`[`Rule`]`], behaviour?:`[`Behaviour`]`, patch?}` |
//! | `GET servers`, `POST servers` | all servers without any lag; puts a [`Seed`] there |
//! | `GET servers/{id}/user_data` | first-boot data as received, also of servers that are gone |
//! | `POST clock` | [`ClockChange`]; answers `{now_ms, now}` |
//! | `POST auth` | [`AuthChange`] |
//! | `POST noise` `{requests}` | uses up the rate limit in somebody else's name |
//! | `GET held`, `POST release` `{abandon?}` | exchanges that a rule holds; lets them go on, or resets them |
//! | `POST reset` | everything as it was at the start, but for the clock |

mod account;
mod admin;
mod api;
mod behaviour;
mod change;
mod clock;
mod cloud;
mod echo;
mod encodings;
mod faults;
mod ledger;
mod options;
mod part_api;
mod parts;
mod reply;
mod request;
mod secrets;
mod serve;
mod server;
mod shared;
mod sight;
mod state;
mod tls;

pub use account::AuthChange;
pub use behaviour::{
    Behaviour, Capacity, Idempotency, LastPage, Limits, Lockout, Paging, Rate, RetryAfter, Sessions,
    UserData, Visibility,
};
pub use clock::ClockChange;
pub use cloud::{Cloud, SeedError, StartError};
pub use encodings::{ENCODINGS, encode};
pub use faults::{Fault, Location, Moment, Rule, RuleState};
pub use ledger::{AuthCounters, Effect, EffectKind, Ledger};
pub use options::{MachineType, Options, Seed};
pub use request::Recorded;
pub use shared::Held;
