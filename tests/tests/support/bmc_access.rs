//! Who may come in to the BMC: basic authentication, sessions in few slots, lockout.

use std::time::Duration;

use holdfast_tests::{
    bmc::{Access, Bmc, Location, Options, Sessions},
    client::{Client, Reply},
    tls::RunCa,
};
use serde_json::json;

const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const SYSTEM: &str = "/redfish/v1/Systems/1";

async fn started(access: Access) -> (Bmc, Client) {
    let bmc = Bmc::start(&RunCa::new().unwrap(), Options::default().access(access)).await.unwrap();
    let client = bmc.client().unwrap().anonymous();
    (bmc, client)
}

async fn login(client: &Client, password: &str) -> Reply {
    let body = json!({ "UserName": Options::default().user, "Password": password });
    client.post(SESSIONS, &body).await.unwrap()
}

#[tokio::test]
async fn the_service_root_is_open_and_all_else_is_401_before_anything_is_looked_up() {
    let (bmc, client) = started(Access::default()).await;
    let root = client.get("/redfish/v1/").await.unwrap();
    assert_eq!(root.json()["Links"]["Sessions"]["@odata.id"], SESSIONS);
    for path in [SYSTEM, "/redfish/v1/Systems/unknown", "/redfish/v1/TaskService/Tasks", SESSIONS] {
        let refused = client.get(path).await.unwrap();
        assert_eq!(
            (refused.status.as_u16(), refused.header("www-authenticate")),
            (401, "Basic realm=\"bmc\""),
            "{path}"
        );
    }
    assert_eq!(bmc.client().unwrap().get(SYSTEM).await.unwrap().status, 200);
    assert_eq!(client.with_basic("operator", "wrong").get(SYSTEM).await.unwrap().status, 401);
    assert_eq!(bmc.access_counts().wrong_passwords, 1);
}

#[tokio::test]
async fn the_session_table_has_few_slots_and_a_logout_frees_one_n08() {
    let access = Access { sessions: Some(Sessions { slots: 2, ..Sessions::default() }), ..Access::default() };
    let (bmc, client) = started(access).await;
    let password = Options::default().password;
    let first = login(&client, &password).await;
    assert_eq!(first.status, 201);
    let path = first.header("location").to_owned();
    let with_token = client.clone().with_header("x-auth-token", first.header("x-auth-token"));
    assert_eq!(with_token.get(SYSTEM).await.unwrap().status, 200);
    assert_eq!(login(&client, &password).await.status, 201);
    assert_eq!(login(&client, &password).await.status, 503);
    assert_eq!(bmc.access_counts().open_sessions, 2);

    assert_eq!(client.delete(&path).await.unwrap().status, 401, "a logout needs the token");
    assert_eq!(with_token.delete(&path).await.unwrap().status, 204);
    assert_eq!(with_token.get(SYSTEM).await.unwrap().status, 401);
    assert_eq!(login(&client, &password).await.status, 201);

    let counts = bmc.access_counts();
    assert_eq!(
        (counts.open_sessions, counts.most_open_sessions, counts.logins, counts.logouts),
        (2, 2, 3, 1)
    );
    assert_eq!((counts.login_attempts, counts.logins_without_slot, counts.stale_tokens), (4, 1, 1));
    bmc.end_all_sessions();
    assert_eq!(bmc.access_counts().open_sessions, 0);
}

#[tokio::test]
async fn a_session_may_be_named_by_an_absolute_location_and_ends_when_idle() {
    let sessions = Sessions { location: Location::Absolute, idle: Duration::ZERO, ..Sessions::default() };
    let (bmc, client) = started(Access { sessions: Some(sessions), ..Access::default() }).await;
    let opened = login(&client, &Options::default().password).await;
    assert_eq!(opened.header("location"), format!("{}{SESSIONS}/1", bmc.origin()));
    let with_token = client.with_header("x-auth-token", opened.header("x-auth-token"));
    assert_eq!(with_token.get(SYSTEM).await.unwrap().status, 401);
    assert_eq!(bmc.access_counts().open_sessions, 0);
}

#[tokio::test]
async fn a_service_may_know_only_sessions_or_none_at_all() {
    let (bmc, client) = started(Access { basic: false, ..Access::default() }).await;
    assert_eq!(bmc.client().unwrap().get(SYSTEM).await.unwrap().status, 401);
    assert_eq!(login(&client, &Options::default().password).await.status, 201);

    let (bmc, client) = started(Access { sessions: None, ..Access::default() }).await;
    let root = client.get("/redfish/v1").await.unwrap().json();
    assert!(root["SessionService"].is_null() && root["Links"]["Sessions"].is_null());
    assert_eq!(bmc.client().unwrap().get("/redfish/v1/SessionService").await.unwrap().status, 404);
}

#[tokio::test]
async fn wrong_passwords_in_a_row_lock_the_account_and_the_storm_is_counted() {
    let (bmc, client) = started(Access { lockout_after: Some(3), ..Access::default() }).await;
    let password = Options::default().password;
    for attempt in ["wrong", "wrong", &password, "wrong", "wrong"] {
        login(&client, attempt).await;
    }
    assert_eq!(bmc.access_counts().lockouts, 0, "a right password starts the row anew");
    assert_eq!(login(&client, "wrong").await.status, 401);
    assert_eq!(login(&client, &password).await.status, 401, "it is locked");
    assert_eq!(bmc.client().unwrap().get(SYSTEM).await.unwrap().status, 401, "for basic authentication too");
    let counts = bmc.access_counts();
    assert_eq!((counts.lockouts, counts.attempts_while_locked, counts.wrong_passwords), (1, 2, 5));

    bmc.unlock();
    bmc.set_password("another one");
    assert_eq!(login(&client, &password).await.status, 401);
    assert_eq!(login(&client, "another one").await.status, 201);
}
