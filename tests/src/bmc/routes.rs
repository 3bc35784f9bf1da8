//! From a request to a reply: the resources that a power-operating client needs, and no more.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{
    HeaderMap, Method, Request, StatusCode,
    header::{ETAG, HOST, IF_MATCH, LOCATION, RETRY_AFTER},
};
use serde_json::{Value, json};

use super::{
    personality::{Etag, IfMatch, Location, ResetAnswer, ResetTarget, ResetType, ResetTypesIn},
    reply::{self, Reply, error, not_found, ok, with},
    sessions::{Denied, Doorkeeper},
    system::{Refused, System},
};

const ROOT: &str = "/redfish/v1";
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// A change of power with a number of its own.
pub(super) struct Task {
    pub system: String,
    pub due: Instant,
}

/// Everything that the server is.
pub(super) struct State {
    pub door: Doorkeeper,
    pub systems: BTreeMap<String, System>,
    pub tasks: Vec<Task>,
}

impl State {
    pub fn respond(&mut self, request: &Request<Bytes>) -> Reply {
        let now = Instant::now();
        let path = request.uri().path();
        let Some(below) = path.strip_prefix(ROOT) else { return not_found("Resource", path) };
        let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
        let method = request.method();
        match (method.as_str(), segments.as_slice()) {
            ("GET", []) => return self.root(),
            ("POST", ["SessionService", "Sessions"]) if self.door.access.sessions.is_some() => {
                return self.login(request, now);
            }
            _ => {}
        }
        if let Err(denied) = self.door.admit(request.headers(), now) {
            return refuse(denied);
        }
        match segments.as_slice() {
            ["SessionService", rest @ ..] if self.door.access.sessions.is_some() => {
                self.session_service(method, rest)
            }
            ["Systems"] if method == Method::GET => self.systems(),
            ["Systems", id, rest @ ..] => self.system(id, rest, request, now),
            ["TaskService", rest @ ..] if method == Method::GET => {
                self.task_service(rest, request.headers(), now)
            }
            _ => not_found("Resource", path),
        }
    }

    fn root(&self) -> Reply {
        let mut root = json!({
            "@odata.id": "/redfish/v1/",
            "@odata.type": "#ServiceRoot.v1_16_0.ServiceRoot",
            "Id": "RootService",
            "Name": "Root Service",
            "RedfishVersion": "1.18.0",
            "Systems": { "@odata.id": "/redfish/v1/Systems" },
            "Tasks": { "@odata.id": "/redfish/v1/TaskService" },
            "Links": {},
        });
        if self.door.access.sessions.is_some() {
            root["SessionService"] = json!({ "@odata.id": "/redfish/v1/SessionService" });
            root["Links"]["Sessions"] = json!({ "@odata.id": SESSIONS });
        }
        ok(&root)
    }

    fn login(&mut self, request: &Request<Bytes>, now: Instant) -> Reply {
        let body = body_of(request);
        let (Some(user), Some(password)) = (body["UserName"].as_str(), body["Password"].as_str()) else {
            let message = "The create operation failed because a required property was missing.";
            return error(StatusCode::BAD_REQUEST, "CreateFailedMissingReqProperties", message, &[]);
        };
        let (id, token) = match self.door.login(user, password, now) {
            Ok(session) => session,
            Err(denied) => return refuse(denied),
        };
        let path = format!("{SESSIONS}/{id}");
        let body = json!({ "@odata.id": path, "@odata.type": "#Session.v1_7_0.Session", "Id": id,
            "Name": "User session", "UserName": user, "Password": null });
        let location =
            self.door.access.sessions.as_ref().map_or(Location::Relative, |sessions| sessions.location);
        let reply =
            with(reply::json(StatusCode::CREATED, &body), "x-auth-token".parse().expect("a header"), &token);
        with(reply, LOCATION, &named(location, &path, request.headers()))
    }

    fn session_service(&mut self, method: &Method, rest: &[&str]) -> Reply {
        match (method.as_str(), rest) {
            ("GET", []) => ok(&json!({
                "@odata.id": "/redfish/v1/SessionService",
                "@odata.type": "#SessionService.v1_1_9.SessionService",
                "Id": "SessionService",
                "Name": "Session Service",
                "ServiceEnabled": true,
                "Sessions": { "@odata.id": SESSIONS },
            })),
            ("GET", ["Sessions"]) => reply::members(
                SESSIONS,
                "Session",
                self.door.session_ids().map(|id| format!("{SESSIONS}/{id}")),
            ),
            ("DELETE", ["Sessions", id]) if self.door.logout(id) => reply::no_content(),
            (_, ["Sessions", id]) => not_found("Session", id),
            _ => not_allowed(),
        }
    }

    fn systems(&self) -> Reply {
        reply::members("/redfish/v1/Systems", "ComputerSystem", self.systems.keys().map(|id| system_path(id)))
    }

    fn system(&mut self, id: &str, rest: &[&str], request: &Request<Bytes>, now: Instant) -> Reply {
        let Some(system) = self.systems.get_mut(id) else { return not_found("ComputerSystem", id) };
        system.settle(now);
        match (request.method().as_str(), rest) {
            ("GET", []) => describe(system),
            ("PATCH", []) => patch(system, request),
            ("GET", ["ResetActionInfo"]) if system.personality.reset_types_in == ResetTypesIn::ActionInfo => {
                action_info(system)
            }
            ("POST", ["Actions", action @ ..]) if action == target_segments(system) => {
                self.reset(id, request, now)
            }
            (_, []) => not_allowed(),
            _ => not_found("Resource", request.uri().path()),
        }
    }

    fn reset(&mut self, id: &str, request: &Request<Bytes>, now: Instant) -> Reply {
        let Some(system) = self.systems.get_mut(id) else { return not_found("ComputerSystem", id) };
        let required = system.personality.if_match == IfMatch::RequiredOnWrites;
        if let Some(refusal) = precondition(system, request.headers(), required) {
            return refusal;
        }
        let body = body_of(request);
        let word = body["ResetType"].as_str().unwrap_or_default();
        let Some(reset) = ResetType::from_word(word) else { return not_offered(word) };
        let due = match system.reset(reset, now) {
            Ok(due) => due,
            Err(Refused::NotOffered) => return not_offered(word),
            Err(Refused::TooSoon) => {
                let message =
                    "The change to the requested resource failed because the resource is in transition.";
                return error(StatusCode::CONFLICT, "ResourceInUse", message, &[]);
            }
            Err(Refused::IsOff) => {
                let message = "The request could not be performed because the resource is in standby.";
                return error(StatusCode::CONFLICT, "ResourceInStandby", message, &[]);
            }
        };
        let ResetAnswer::Task(location) = system.personality.reset_answer else { return reply::no_content() };
        self.tasks.push(Task { system: id.to_owned(), due });
        let number = self.tasks.len();
        let reply = reply::json(StatusCode::ACCEPTED, &self.task_json(number, now));
        with(reply, LOCATION, &named(location, &monitor_path(number), request.headers()))
    }

    fn task_service(&self, rest: &[&str], headers: &HeaderMap, now: Instant) -> Reply {
        let numbered = |id: &str| id.parse().ok().filter(|number| (1..=self.tasks.len()).contains(number));
        match rest {
            [] => ok(
                &json!({ "@odata.id": "/redfish/v1/TaskService", "Id": "TaskService", "Name": "Task Service",
                "Tasks": { "@odata.id": "/redfish/v1/TaskService/Tasks" } }),
            ),
            ["Tasks"] => {
                let paths =
                    (1..=self.tasks.len()).map(|number| format!("/redfish/v1/TaskService/Tasks/{number}"));
                reply::members("/redfish/v1/TaskService/Tasks", "Task", paths)
            }
            ["Tasks", id] => match numbered(id) {
                Some(number) => ok(&self.task_json(number, now)),
                None => not_found("Task", id),
            },
            ["TaskMonitors", id] => match numbered(id).filter(|number| self.running(*number, now)) {
                Some(number) => {
                    let location = self
                        .systems
                        .get(&self.tasks[number - 1].system)
                        .map(|it| it.personality.reset_answer);
                    let location = match location {
                        Some(ResetAnswer::Task(location)) => location,
                        _ => Location::Relative,
                    };
                    let reply = reply::json(StatusCode::ACCEPTED, &self.task_json(number, now));
                    with(
                        with(reply, LOCATION, &named(location, &monitor_path(number), headers)),
                        RETRY_AFTER,
                        "1",
                    )
                }
                None => not_found("TaskMonitor", id),
            },
            _ => not_found("Resource", "TaskService"),
        }
    }

    fn running(&self, number: usize, now: Instant) -> bool {
        now < self.tasks[number - 1].due
    }

    fn task_json(&self, number: usize, now: Instant) -> Value {
        let running = self.running(number, now);
        let mut task = json!({
            "@odata.id": format!("/redfish/v1/TaskService/Tasks/{number}"),
            "@odata.type": "#Task.v1_7_4.Task",
            "Id": number.to_string(),
            "Name": "Reset",
            "TaskState": if running { "Running" } else { "Completed" },
            "TaskStatus": "OK",
            "Links": { "CreatedResources": [] },
            "Payload": { "TargetUri": system_path(&self.tasks[number - 1].system) },
        });
        if running {
            task["TaskMonitor"] = json!(monitor_path(number));
        }
        task
    }

    /// When the last change of any system is done.
    pub fn quiet_at(&self) -> Option<Instant> {
        self.systems.values().filter_map(System::quiet_at).max()
    }
}

fn describe(system: &System) -> Reply {
    let path = system_path(&system.id);
    let target = format!("{path}/Actions/{}", target_segments(system).join("/"));
    let mut action = json!({ "target": target });
    let words: Vec<&str> = system.personality.reset_types.iter().map(|it| it.word()).collect();
    match system.personality.reset_types_in {
        ResetTypesIn::System => action["ResetType@Redfish.AllowableValues"] = json!(words),
        ResetTypesIn::ActionInfo => action["@Redfish.ActionInfo"] = json!(format!("{path}/ResetActionInfo")),
        ResetTypesIn::Nowhere => {}
    }
    let mut body = json!({
        "@odata.id": path,
        "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem",
        "Id": system.id,
        "Name": "System",
        "SystemType": "Physical",
        "AssetTag": system.asset_tag,
        "PowerState": system.power_word(),
        "Status": { "State": "Enabled", "Health": "OK" },
        "Actions": { "#ComputerSystem.Reset": action },
    });
    if let Some(at) = system.last_reset {
        body["LastResetTime"] = json!(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    }
    let etag = system.etag();
    if let Some(etag) = &etag {
        body["@odata.etag"] = json!(etag);
    }
    tagged(ok(&body), etag)
}

fn patch(system: &mut System, request: &Request<Bytes>) -> Reply {
    let required = system.personality.if_match != IfMatch::Optional;
    if let Some(refusal) = precondition(system, request.headers(), required) {
        return refusal;
    }
    let body = body_of(request);
    match body.as_object().map(|object| object.iter().collect::<Vec<_>>()).as_deref() {
        Some([(key, Value::String(tag))]) if *key == "AssetTag" => {
            system.asset_tag = tag.clone();
            system.change();
            tagged(reply::no_content(), system.etag())
        }
        _ => {
            let message = "The property is not in the list of valid properties for the resource.";
            error(StatusCode::BAD_REQUEST, "PropertyUnknown", message, &[])
        }
    }
}

/// 412 or 428, if `If-Match` asks for it. Where there is no tag, there is nothing to compare.
fn precondition(system: &mut System, headers: &HeaderMap, required: bool) -> Option<Reply> {
    if system.personality.etag == Etag::Absent {
        return None;
    }
    system.before_write();
    let given = headers.get(IF_MATCH).map(|value| value.to_str().unwrap_or_default());
    let refusal = match given {
        Some(given) if system.matches(given) => return None,
        None if !required => return None,
        Some(_) => {
            let message = "The ETag supplied did not match the ETag required to change this resource.";
            error(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", message, &[])
        }
        None => {
            let message = "A precondition header or annotation is required to change this resource.";
            error(StatusCode::PRECONDITION_REQUIRED, "PreconditionRequired", message, &[])
        }
    };
    system.ledger.conflicts += 1;
    Some(refusal)
}

fn action_info(system: &System) -> Reply {
    let words: Vec<&str> = system.personality.reset_types.iter().map(|it| it.word()).collect();
    ok(&json!({
        "@odata.id": format!("{}/ResetActionInfo", system_path(&system.id)),
        "@odata.type": "#ActionInfo.v1_4_2.ActionInfo",
        "Id": "ResetActionInfo",
        "Name": "Reset Action Info",
        "Parameters": [{ "Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": words }],
    }))
}

fn target_segments(system: &System) -> &'static [&'static str] {
    match system.personality.reset_target {
        ResetTarget::Standard => &["ComputerSystem.Reset"],
        ResetTarget::Vendor => &["Oem", "Vendor.Reset"],
    }
}

fn refuse(denied: Denied) -> Reply {
    match denied {
        Denied::Anonymous | Denied::Wrong | Denied::StaleToken => {
            let message = "There is no valid session or account for this request.";
            error(StatusCode::UNAUTHORIZED, "NoValidSession", message, &[])
        }
        Denied::Locked => {
            let message = "The account is locked because of too many failed attempts.";
            error(StatusCode::UNAUTHORIZED, "ResourceAtUriUnauthorized", message, &[])
        }
        Denied::NoSlot => {
            let message = "The session could not be established because the session limit is reached.";
            error(StatusCode::SERVICE_UNAVAILABLE, "SessionLimitExceeded", message, &[])
        }
    }
}

fn not_offered(word: &str) -> Reply {
    let message =
        format!("The value '{word}' for the parameter ResetType is not in the list of acceptable values.");
    error(StatusCode::BAD_REQUEST, "ActionParameterValueNotInList", &message, &[word, "ResetType", "Reset"])
}

fn not_allowed() -> Reply {
    let message = "The operation is not allowed on this resource.";
    error(StatusCode::METHOD_NOT_ALLOWED, "OperationNotAllowed", message, &[])
}

fn tagged(reply: Reply, etag: Option<String>) -> Reply {
    match etag {
        Some(etag) => with(reply, ETAG, &etag),
        None => reply,
    }
}

fn body_of(request: &Request<Bytes>) -> Value {
    serde_json::from_slice(request.body()).unwrap_or(Value::Null)
}

fn named(location: Location, path: &str, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    match (location, host) {
        (Location::Absolute, Some(host)) => format!("https://{host}{path}"),
        _ => path.to_owned(),
    }
}

fn system_path(id: &str) -> String {
    format!("/redfish/v1/Systems/{id}")
}

fn monitor_path(number: usize) -> String {
    format!("/redfish/v1/TaskService/TaskMonitors/{number}")
}

/// How long from now until `at`; none when it has passed.
pub(super) fn until(at: Instant) -> Option<Duration> {
    at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}
