//! What clients learn of the server: discovery, OpenAPI, tables; and how they get in.

mod common;

use std::sync::Arc;

use common::{Fixture, MACHINES, OPERATIONS, SECRETS, machine, operation, start};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn table(fixture: &Fixture, path: &str) -> Value {
    fixture.send(&format!("GET {path}"), &[("accept", TABLE)], "").await.ok()
}

#[tokio::test]
async fn discovery_names_every_kind_with_its_verbs_and_short_names() {
    let fixture = start().await;
    assert_eq!(fixture.get("/api").await.ok()["versions"], json!(["v1"]));
    let groups = fixture.get("/apis").await.ok();
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["events.k8s.io", "coordination.k8s.io", "holdfast.dev"]);
    let list = fixture.get("/apis/holdfast.dev/v1alpha1").await.ok();
    let find = |name: &str| {
        list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned().unwrap()
    };
    let mop = find("machineoperations");
    assert_eq!((&mop["shortNames"], &mop["namespaced"]), (&json!(["mop"]), &json!(false)));
    assert!(mop["verbs"].as_array().unwrap().contains(&json!("watch")));
    assert_eq!(find("machineoperations/status")["verbs"], json!(["get", "patch", "update"]));
    assert_eq!(fixture.get("/apis/unknown.example").await.code, 404);
    assert_eq!(fixture.get("/version").await.ok()["major"], "1");
}

#[tokio::test]
async fn the_openapi_documents_hold_together() {
    let fixture = start().await;
    let index = fixture.get("/openapi/v3").await.ok();
    for (_, entry) in index["paths"].as_object().unwrap() {
        let document = fixture.get(entry["serverRelativeURL"].as_str().unwrap()).await.ok();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name} is missing");
        }
    }
    let document = fixture.get("/openapi/v3/apis/holdfast.dev/v1alpha1").await.ok();
    let patch = &document["paths"]["/apis/holdfast.dev/v1alpha1/machines/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Machine");
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_null());
    let schema = &document["components"]["schemas"]["dev.holdfast.v1alpha1.MachineOperation"];
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "MachineOperation");
    assert!(
        schema["properties"]["spec"]["properties"]["cancel"]["description"]
            .as_str()
            .unwrap()
            .contains("cancelled")
    );
}

#[tokio::test]
async fn tables_have_the_printer_columns_and_the_age() {
    let fixture = start().await;
    let mut object = machine("m");
    object["metadata"]["labels"] = json!({ "holdfast.dev/site": "s1" });
    fixture.post(MACHINES, object).await.ok();
    let machines = table(&fixture, MACHINES).await;
    let names: Vec<&Value> =
        machines["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Name", "Provider", "ProviderID", "Class", "Site", "Operation", "Age"]);
    let cells = machines["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..6], [json!("m"), json!("sim"), json!("i-1"), Value::Null, json!("s1"), Value::Null]);
    assert!(cells[6].as_str().unwrap().ends_with('s'), "{}", cells[6]);
    assert_eq!(machines["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let whole = table(&fixture, &format!("{MACHINES}?includeObject=Object")).await;
    assert_eq!(whole["rows"][0]["object"]["kind"], "Machine");
    fixture.post(OPERATIONS, operation("o")).await.ok();
    let status = json!({ "status": { "phase": "Failed", "reason": "Broken" } });
    fixture.merge(&format!("{OPERATIONS}/o/status"), status).await.ok();
    let one = table(&fixture, &format!("{OPERATIONS}/o")).await;
    assert_eq!(
        one["rows"][0]["cells"].as_array().unwrap()[..5],
        ["o", "m", "HostReboot", "Failed", "Broken"].map(|c| json!(c))
    );
    fixture
        .post(SECRETS, json!({ "metadata": { "name": "s" }, "stringData": { "a": "1", "b": "2" } }))
        .await
        .ok();
    let secrets = table(&fixture, SECRETS).await;
    assert_eq!(secrets["rows"][0]["cells"].as_array().unwrap()[..3], [json!("s"), json!("Opaque"), json!(2)]);
    assert!(!secrets.to_string().contains("MQ=="), "a table of Secrets shows no data");
}

#[tokio::test]
async fn metadata_alone_is_given_if_that_is_asked_for() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("m")).await.ok();
    let accept = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let list = fixture.send(&format!("GET {MACHINES}"), &accept, "").await.ok();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0]["spec"].is_null());
    let protobuf = [("accept", "application/vnd.kubernetes.protobuf,application/json")];
    assert_eq!(fixture.send(&format!("GET {MACHINES}"), &protobuf, "").await.ok()["kind"], "MachineList");
}

/// A request over TLS, as any client on loopback makes it.
async fn over_tls(address: std::net::SocketAddr, ca: &[u8], path: &str, token: Option<&str>) -> (u16, Value) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(ca).unwrap()).unwrap();
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::get(path).header("host", "127.0.0.1");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

fn token_of(kubeconfig: &std::path::Path) -> String {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    text.lines().find_map(|l| l.trim().strip_prefix("token: ")).unwrap().to_owned()
}

#[tokio::test]
async fn on_the_network_the_token_decides_and_only_health_is_open() {
    let fixture = start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let kubeconfig = fixture.server.default_kubeconfig();
    fixture.server.write_kubeconfig(&kubeconfig, address).unwrap();
    let serving = tokio::spawn({
        let server = fixture.server.clone();
        async move { server.serve(listener).await }
    });
    let ca = std::fs::read(kubeconfig.with_file_name("api-ca.crt")).unwrap();
    let token = token_of(&kubeconfig);
    for path in ["/healthz", "/readyz", "/livez", "/version"] {
        assert_eq!(over_tls(address, &ca, path, None).await.0, 200, "{path}");
    }
    for path in [MACHINES, SECRETS, "/api", "/openapi/v3", "/metrics", "/", "/no/such/path"] {
        let (code, body) = over_tls(address, &ca, path, None).await;
        assert_eq!((code, body["reason"].as_str()), (401, Some("Unauthorized")), "{path}");
        assert_eq!(over_tls(address, &ca, path, Some("wrong")).await.0, 401, "{path}");
    }
    assert_eq!(over_tls(address, &ca, MACHINES, Some(&token)).await.1["kind"], "MachineList");
    fixture.server.shutdown().await;
    serving.await.unwrap();
}

#[tokio::test]
async fn the_token_stays_while_its_kubeconfig_does_and_is_in_no_other_file() {
    let fixture = start().await;
    let address = "127.0.0.1:1".parse().unwrap();
    let path = fixture.server.default_kubeconfig();
    fixture.server.write_kubeconfig(&path, address).unwrap();
    let token = token_of(&path);
    fixture.server.write_kubeconfig(&path, "127.0.0.1:2".parse().unwrap()).unwrap();
    assert_eq!(token_of(&path), token);
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = entry.unwrap().path();
        let holds = std::fs::read(&file).unwrap().windows(token.len()).any(|w| w == token.as_bytes());
        assert_eq!(holds, file == path, "{}", file.display());
    }
    std::fs::remove_file(&path).unwrap();
    fixture.server.write_kubeconfig(&path, address).unwrap();
    assert_ne!(token_of(&path), token, "a lost token is replaced");
}

/// Drives the real `kubectl` named by `HOLDFAST_KUBECTL`; without one there is nothing to drive.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_gets_explains_and_deletes() {
    let Some(kubectl) = std::env::var_os("HOLDFAST_KUBECTL") else { return };
    let fixture = start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let path = fixture.server.default_kubeconfig();
    fixture.server.write_kubeconfig(&path, listener.local_addr().unwrap()).unwrap();
    let server = fixture.server.clone();
    tokio::spawn(async move { server.serve(listener).await });
    let folder = path.parent().unwrap().to_owned();
    let run = |arguments: &str| {
        let output = std::process::Command::new(&kubectl)
            .args(arguments.split(' '))
            .env("KUBECONFIG", &path)
            .env("HOME", &folder)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "kubectl {arguments}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let file = folder.join("machine.json");
    std::fs::write(&file, machine("m").to_string()).unwrap();
    let apply = format!("apply -f {}", file.display());
    assert_eq!(run(&apply), "machine.holdfast.dev/m created\n");
    assert_eq!(run(&apply), "machine.holdfast.dev/m unchanged\n");
    assert!(run("get mach").contains("sim"));
    assert!(run("explain machineoperation.spec.cancel").contains("cancelled"));
    run("create secret generic s --from-literal=a=b");
    assert!(run("describe secret s").contains("1 bytes"));
    run("delete mach m");
}
