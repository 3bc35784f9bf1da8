//! The real daemon, its log at TRACE.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use holdfast_api::{MachineOperation, Phase};
use holdfast_simulated_cloud::{AuthChange, Cloud, EffectKind, Options};
use holdfast_tests::house::{self, Endpoint, Grant, House};
use kube::Api;
use kube::api::{Patch, PatchParams};
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::canary::{self, Look};
use crate::objects;
use crate::plan::{Plan, SITES};

/// Everything that anybody can list, secrets aside.
const LISTS: [&str; 9] = [
    "/apis/holdfast.dev/v1alpha1/machineoperations",
    "/apis/holdfast.dev/v1alpha1/machines",
    "/apis/holdfast.dev/v1alpha1/providers",
    "/apis/holdfast.dev/v1alpha1/providercredentials",
    "/apis/holdfast.dev/v1alpha1/baremetalmachines",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/events",
    "/api/v1/configmaps",
    "/api/v1/namespaces",
];

/// A cloud that takes both tokens, and a daemon whose simulated provider is bound to it.
async fn start() -> (Cloud, House) {
    let module = tokio::task::spawn_blocking(|| {
        holdfast_tests::modules::build().unwrap().provider("simulated").unwrap()
    });
    let module = std::fs::read(module.await.unwrap()).unwrap();
    let cloud =
        Cloud::start(Options { api_token: canary::PLAIN.into(), ..Options::default() }).await.unwrap();
    cloud.auth(AuthChange { token: Some(canary::HOSTILE.into()), ..AuthChange::default() });
    let mut house = House::new().unwrap();
    let manifest = holdfast_runtime::inspect(&module).unwrap().manifest;
    let endpoint = Endpoint::at("api", cloud.origin(), cloud.ca_pem());
    house.grant(Grant::approving(&manifest).endpoint(endpoint));
    house.drop_in("simulated.wasm", &module).unwrap();
    house.start().await.unwrap();
    (cloud, house)
}

/// The look at everything that the daemon has left and shows.
async fn look_at_everything(house: &House) -> (BTreeSet<String>, String) {
    let look = Look::for_all();
    let mut seen = look.sightings("the log", house.log().as_bytes());
    seen.extend(look.sightings("the files of the state directory", &house.state_bytes().unwrap()));
    let https = house.https().unwrap();
    for list in LISTS {
        let reply = https.get(list).await.unwrap();
        assert_eq!(reply.status, 200, "{list}");
        seen.extend(look.sightings(list, &reply.body));
    }
    for arguments in [
        ["get", "mop,mach,prov,pcred", "-A", "-o", "wide"].as_slice(),
        &["get", "events", "-A", "-o", "wide"],
        &["describe", "prov"],
    ] {
        let table = house.kubectl_ok(arguments).unwrap();
        seen.extend(look.sightings(&format!("kubectl {arguments:?}"), table.as_bytes()));
    }
    let (head, metrics) = house.observe("/metrics").unwrap();
    seen.extend(look.sightings("/metrics", metrics.as_bytes()));
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    // The same look at the one place where they belong: it is real.
    let secrets = https.get("/api/v1/secrets").await.unwrap();
    let belongs = look.sightings("secrets", &secrets.body);
    for name in ["plain token", "hostile token", "password", "key"] {
        assert!(
            belongs.iter().any(|it| it.starts_with(name)),
            "the look finds the {name} in its Secret: {belongs:?}"
        );
    }
    (seen, metrics)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_that_a_cloud_echoes_in_every_form_are_seen_nowhere_outside_of_custody_attack_8() {
    let (cloud, house) = start().await;
    let client = house.client().unwrap();
    let plan = Plan::whole(&cloud);
    plan.lay(&cloud);
    objects::secrets(&client).await;
    objects::begin(&client, &plan.jobs).await;
    let ends = objects::settled(&client, &plan.jobs).await;

    assert_eq!(plan.acted(&cloud), plan.rules(), "every echo was given back");
    let ledger = cloud.ledger();
    for (job, status) in plan.jobs.iter().zip(&ends) {
        let told = format!("{}: {:?} {:?}", job.name, status.reason, status.message);
        let (kind, phase) = match job.kind {
            "HostPowerOff" => (EffectKind::PowerOff, Phase::Complete),
            "HostPowerOn" => (EffectKind::PowerOn, Phase::Complete),
            // A withheld answer leaves a call that may never be repeated in doubt (R2.11, hole H5).
            "HostReboot" => (EffectKind::Reset, Phase::OutcomeUnknown),
            _ => (EffectKind::Delete, Phase::Complete),
        };
        assert_eq!(status.phase, phase, "{told}");
        assert_eq!(ledger.count(kind, &job.server), 1, "one effect and no twin: {told}");
    }
    let replaced: Vec<_> =
        ledger.effects.iter().filter(|effect| effect.kind == EffectKind::Replace).collect();
    let wanted = sha256(canary::user_data().as_bytes());
    assert!(
        replaced.iter().all(|effect| effect.user_data_sha256.as_deref() == Some(&wanted)),
        "the cloud got the first-boot data byte for byte"
    );
    for (site, token) in SITES {
        let wanted = sha256(token.as_bytes());
        let place = "header:Authorization#token";
        let got =
            cloud.requests().iter().filter(|request| request.secrets.get(place) == Some(&wanted)).count();
        assert!(got > 100, "the cloud got the token of {site} {got} times");
    }
    resolve_one(&client, &plan).await;
    let (seen, metrics) = look_at_everything(&house).await;
    assert!(seen.is_empty(), "seen outside of custody: {seen:#?}");
    let log = house.log();
    assert!(log.contains("accepted HostPowerOn"), "what guests say is in the log, which takes all at TRACE");
    let labels = crate::metrics::labels(&metrics);
    crate::metrics::judge(&labels);
    assert!(labels["callback"].contains("begin") && labels["phase"].contains("OutcomeUnknown"), "{labels:?}");
}

/// A person's way out of an answer that was withheld.
async fn resolve_one(client: &kube::Client, plan: &Plan) {
    let name = &plan.jobs.iter().find(|job| job.kind == "HostReboot").unwrap().name;
    let operations: Api<MachineOperation> = Api::all(client.clone());
    let word = json!({ "spec": { "resolve": { "effect": "reset", "outcome": "TookEffect" } } });
    operations.patch(name, &PatchParams::default(), &Patch::Merge(&word)).await.unwrap();
    house::until(client, name, objects::PATIENCE, |operation: &MachineOperation| {
        operation.status.as_ref().is_some_and(|status| status.phase == Phase::Complete)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_that_do_not_fit_their_place_are_refused_with_a_sentence_and_shown_nowhere() {
    let (cloud, house) = start().await;
    let client = house.client().unwrap();
    let mut plan = Plan::default();
    let binary = canary::binary(canary::BINARY_TOKEN);
    let header =
        "credential key `api-token` goes to a header and holds a control or non-ASCII character (attack 33)";
    let refused: [(&str, &[u8], &str); 4] = [
        ("short", canary::SHORT.as_bytes(), "credential key `api-token` is shorter than 8 bytes"),
        ("two-lines", canary::TWO_LINES.as_bytes(), header),
        ("unicode", canary::UNICODE.as_bytes(), header),
        ("binary", &binary, header),
    ];
    for (site, token, _) in refused {
        objects::credential(&client, site, token).await;
        plan.job(&cloud, site, "refused", "HostPowerOff", "running");
    }
    objects::credential(&client, "plain", canary::PLAIN.as_bytes()).await;
    objects::first_boot(&client, "first-boot", &canary::binary(canary::BINARY_DATA)).await;
    plan.job(&cloud, "plain", "binary-data", "HostReplace", "running");
    // What the look wants to find in Secrets.
    objects::credential(&client, "hostile", canary::HOSTILE.as_bytes()).await;
    objects::first_boot(&client, "unused", canary::user_data().as_bytes()).await;

    objects::begin(&client, &plan.jobs).await;
    let ends = objects::settled(&client, &plan.jobs).await;
    let sentences = refused.iter().map(|(_, _, sentence)| ("AuthInvalid", *sentence));
    let data = ("ArgumentDoesNotFit", "`user-data` is not UTF-8; use a slot with base64");
    for ((job, status), (reason, sentence)) in plan.jobs.iter().zip(&ends).zip(sentences.chain([data])) {
        let message = status.message.as_deref().unwrap_or_default();
        assert_eq!(
            (status.phase, status.reason.as_deref()),
            (Phase::Failed, Some(reason)),
            "{}: {message}",
            job.name
        );
        assert!(message.contains(sentence), "{}: {message}", job.name);
    }
    assert_eq!(cloud.ledger().effects.len(), 0, "nothing was done with them");
    let (seen, _) = look_at_everything(&house).await;
    assert!(seen.is_empty(), "seen outside of custody: {seen:#?}");
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}
