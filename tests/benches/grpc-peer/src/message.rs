//! The contract's `poll` as protobuf messages.

pub const SERVICE: &str = "holdfast.Operations";
pub const POLL: &str = "/holdfast.Operations/Poll";

#[derive(Clone, PartialEq, prost::Message)]
pub struct Pair {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Machine {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(int64, tag = "3")]
    pub generation: i64,
    #[prost(string, optional, tag = "4")]
    pub provider_id: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub host_image: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PollRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub kind: String,
    #[prost(message, repeated, tag = "4")]
    pub parameters: Vec<Pair>,
    #[prost(message, optional, tag = "5")]
    pub machine: Option<Machine>,
    #[prost(string, tag = "6")]
    pub site: String,
    #[prost(string, tag = "7")]
    pub started_at: String,
    #[prost(string, optional, tag = "8")]
    pub accepted_at: Option<String>,
    #[prost(string, optional, tag = "9")]
    pub deadline: Option<String>,
    #[prost(uint32, tag = "10")]
    pub attempt: u32,
    #[prost(string, tag = "11")]
    pub operation_id: String,
    #[prost(string, tag = "12")]
    pub resume_token: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PollReply {
    /// 0: in progress, 1: succeeded, 2: failed.
    #[prost(uint32, tag = "1")]
    pub state: u32,
    #[prost(string, optional, tag = "2")]
    pub provider_id: Option<String>,
    #[prost(string, tag = "3")]
    pub reason: String,
    #[prost(string, tag = "4")]
    pub message: String,
    #[prost(uint64, optional, tag = "5")]
    pub requeue_after_ms: Option<u64>,
}

/// The request that is sent each time; its texts are as long as those that the other side of the bench sends.
pub fn request() -> PollRequest {
    let text = str::to_owned;
    let pair = |key, value| Pair { key: text(key), value: text(value) };
    PollRequest {
        name: text("power-on-node-17"),
        uid: text("6f2b8c1e-0d4f-4b7e-9a51-3c7d2e8f9a10"),
        kind: text("HostPowerOn"),
        parameters: vec![pair("reason", "maintenance-window-4711"), pair("requested-by", "ops@example.org")],
        machine: Some(Machine {
            name: text("node-17"),
            uid: text("0b9d6a34-7c1e-4f52-8a6b-1e2f3a4b5c6d"),
            generation: 7,
            provider_id: Some(text("sim://srv-1017")),
            host_image: Some(text("image-2026-10-01-hardened")),
        }),
        site: text("site-eu-central-1a"),
        started_at: text("2026-01-01T00:00:00Z"),
        accepted_at: Some(text("2026-01-01T00:00:02Z")),
        deadline: Some(text("2026-01-01T00:10:00Z")),
        attempt: 3,
        operation_id: text("act-20177"),
        resume_token: text(r#"{"server":"srv-1017","action":"act-20177","boots":4,"old":null}"#),
    }
}
