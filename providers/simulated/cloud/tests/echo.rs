//! Knob 11: an endpoint that gives secrets back in every form of attack 8, at many places.

mod common;

use common::{Client, frozen};
use holdfast_simulated_cloud::{ENCODINGS, encode};
use serde_json::{Value, json};

/// Hostile to JSON, with several lines.
const SECRET: &str = "s3cr\"et</x>\\ &=+\n-----END KEY-----\u{e4}";

#[tokio::test]
async fn every_form_comes_back_at_every_place() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let body = json!({ "user_data": SECRET });
    for form in ENCODINGS {
        let expected = encode(form, SECRET.as_bytes()).unwrap();
        let answer = client.post(&format!("/v1/echo?as={form}&what=json:/user_data"), body.clone()).await;
        assert_eq!(answer.status, 200, "{form}");
        for place in ["/echo", "/id", "/text", "/nested/list/0/id"] {
            assert_eq!(answer.text(place), expected, "{form} at {place}");
        }
        let first_line: String = expected.chars().take_while(|c| c.is_ascii_graphic()).collect();
        for header in ["x-echo", "etag", "location"] {
            let value = String::from_utf8_lossy(answer.headers[header].as_bytes()).into_owned();
            assert!(value.contains(&first_line), "{form} in {header}");
        }
    }
    let all = client.post("/v1/echo?as=all&what=json:/user_data", body).await;
    assert_eq!(all.json().as_object().unwrap().len(), ENCODINGS.len());
}

#[tokio::test]
async fn a_secret_escaped_in_json_is_plain_only_to_who_unescapes_it() {
    let cloud = frozen().await;
    let body = json!({ "user_data": SECRET });
    for form in ["json-u", "json-slash"] {
        let target = format!("/v1/echo?as={form}&what=json:/user_data");
        let answer = Client::of(&cloud).post(&target, body.clone()).await;
        assert_eq!(answer.text("/wire"), SECRET, "{form}");
        let wire = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert!(!wire.contains(SECRET), "{form}");
    }
}

#[tokio::test]
async fn the_credential_the_session_and_the_whole_request_come_back_also_from_get() {
    let cloud = frozen().await;
    let client = Client::of(&cloud).with("x-session-token", "my-session");
    let token = cloud.api_token();
    for (what, expected) in [
        ("credential", token.to_owned()),
        ("authorization", format!("Bearer {token}")),
        ("session", "my-session".to_owned()),
        ("all", format!("Bearer {token}\nmy-session")),
    ] {
        assert_eq!(client.get(&format!("/v1/echo?what={what}")).await.text("/echo"), expected, "{what}");
    }
    let sent = client.post("/v1/echo?what=body", json!({ "a": 1 })).await;
    assert_eq!(sent.text("/echo"), "{\"a\":1}");
    let wrong = client.with("authorization", "Bearer wrong").get("/v1/echo?what=credential").await;
    assert_eq!(wrong.text("/echo"), "wrong", "a wrong credential is echoed too");
}

#[tokio::test]
async fn an_error_body_a_text_and_a_compressed_body_hold_it_too() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let error = client.get("/v1/echo?status=409&what=credential&as=hex").await;
    let hex = encode("hex", cloud.api_token().as_bytes()).unwrap();
    assert_eq!((error.status, error.code(), error.text("/error/message")), (409, hex.clone(), hex));
    let text = client.get("/v1/echo?reply=text&what=credential").await;
    assert_eq!(
        (text.bytes.as_ref(), text.header("content-type")),
        (cloud.api_token().as_bytes(), "text/plain")
    );
    let packed = client.get("/v1/echo?reply=gzip&what=credential").await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    let plain: Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed.bytes.as_ref())).unwrap();
    assert_eq!(plain["echo"], cloud.api_token());
    for bad in ["as=rot26", "status=100", "what=nothing", "what=json:/none"] {
        assert_eq!(client.get(&format!("/v1/echo?{bad}")).await.status, 422, "{bad}");
    }
}
