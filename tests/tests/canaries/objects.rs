//! The objects of the plan, through any client: the real daemon's or the one in this process.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use holdfast_api::MachineOperationStatus;
use holdfast_tests::house;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use crate::canary;
use crate::plan::{Job, SITES};

/// An operation that takes longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// Credentials of the lent sites and the first-boot data of the machines.
pub async fn secrets(client: &Client) {
    for (site, token) in SITES {
        credential(client, site, token.as_bytes()).await;
    }
    first_boot(client, "first-boot", canary::user_data().as_bytes()).await;
}

/// The credential of a site.
pub async fn credential(client: &Client, site: &str, token: &[u8]) {
    house::credential_secret(client, site, "simulated", &[("api-token", token)]).await.unwrap();
    house::credential(client, site, "simulated", site).await.unwrap();
}

pub async fn first_boot(client: &Client, name: &str, data: &[u8]) {
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "labels": { "holdfast.dev/first-boot-data": "true" } },
        "data": { "userData": STANDARD.encode(data) },
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "holdfast-system");
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

/// Makes a machine and an operation of the same name for each job.
pub async fn begin(client: &Client, jobs: &[Job]) {
    let all = jobs.iter().map(|job| async move {
        let id = format!("sim://{}", job.server);
        house::cloud_machine(client, &job.name, job.site, "simulated", &id).await.unwrap();
        house::operation(client, &job.name, &job.name, job.kind, json!({})).await.unwrap();
    });
    futures::future::join_all(all).await;
}

/// Waits for the end of each; in order.
pub async fn settled(client: &Client, jobs: &[Job]) -> Vec<MachineOperationStatus> {
    let mut statuses = Vec::new();
    for job in jobs {
        statuses.push(house::settled(client, &job.name, PATIENCE).await.unwrap());
    }
    statuses
}
