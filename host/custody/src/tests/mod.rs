//! Attacks of the catalogue against the whole of custody: a hostile service over real TLS, and what comes through.

mod budgets;
mod catalogue;
mod credentials;
mod echoes;
mod field_cases;
mod lives;
mod network;
mod replies;
mod requests;
mod service;
mod sessions;
mod signed;

use crate::*;
use holdfast_manifest::Manifest;
use serde_json::{Value, json};
use service::{Heard, Reply as Says, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Random enough, JSON-hostile, header-safe.
const TOKEN: &str = "tok-S3cr\"et/9Xk2&Lm<Q8>vR";
const DATA: &str = "#cloud-config\npassword: hunter-Two7\n";

/// A cloud with one of everything.
const CLOUD: &str = include_str!("cloud.toml");

struct World {
    custody: Custody,
    service: Service,
    credentials: CredentialsId,
    revision: Revision,
}

impl World {
    /// A registered cloud with deposited credentials, and a service that answers by the function.
    async fn new(answer: impl Fn(&Heard) -> Says + Send + Sync + 'static) -> World {
        World::with(Options::default(), answer).await
    }

    async fn with(options: Options, answer: impl Fn(&Heard) -> Says + Send + Sync + 'static) -> World {
        let service = Service::start(answer).await;
        let custody = Custody::new(options).unwrap();
        let revision = Revision("cloud@1".into());
        custody
            .register(revision.clone(), manifest(CLOUD), service.grants(&["api", "login-api", "open"]))
            .unwrap();
        let credentials = custody.deposit_credentials(deposit(&revision, TOKEN)).unwrap();
        World { custody, service, credentials, revision }
    }

    fn exchange(&self, call: &str, args: Value) -> Exchange {
        Exchange {
            revision: self.revision.clone(),
            call: call.into(),
            selector: Selector::Site { site: "lab".into() },
            args: args.as_object().unwrap().clone().into_iter().collect(),
            credentials: Some(self.credentials),
            user_data: BTreeMap::new(),
            scope: Scope { provider: "cloud".into(), owner: "op-1".into() },
            timeout_ms: 20_000,
        }
    }

    fn create(&self) -> Exchange {
        let mut exchange = self.exchange("create", json!({"name": "hfabc", "image": "img-1"}));
        let data = SecretBytes::from(DATA.to_owned());
        let id = self.custody.deposit_user_data(&self.revision, "web-1", data).unwrap();
        exchange.user_data.insert("user-data".into(), id);
        exchange
    }

    async fn send(&self, exchange: Exchange) -> Answer {
        self.custody.send(self.custody.prepare(exchange).unwrap()).await
    }

    async fn call(&self, call: &str, args: Value) -> Answer {
        self.send(self.exchange(call, args)).await
    }

    fn caught(&self) -> u64 {
        self.custody.evidence().iter().map(|evidence| evidence.caught).sum()
    }
}

fn manifest(text: &str) -> Arc<Manifest> {
    Arc::new(Manifest::parse(text).unwrap_or_else(|errors| panic!("{errors}")))
}

fn deposit(revision: &Revision, token: &str) -> CredentialDeposit {
    let values = [("api-token", token), ("user", "ops"), ("password", "correct horse battery")];
    CredentialDeposit {
        revision: revision.clone(),
        name: "cloud-account".into(),
        account: "uid-1".into(),
        values: values.map(|(key, value)| (key.to_owned(), SecretBytes::from(value.to_owned()))).into(),
    }
}

fn refusal(verdict: &Verdict) -> &Refusal {
    match verdict {
        Verdict::Rejected(refusal) | Verdict::Unclear(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn fields(answer: &Answer) -> Value {
    match &answer.verdict {
        Verdict::Fits(reply) => Value::Object(reply.fields.clone()),
        other => panic!("{other:?}"),
    }
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn sending_is_a_future_that_a_task_can_own() {
    fn is_send<T: Send>(_: T) {}
    fn check(custody: &Custody, prepared: Prepared) {
        is_send(custody.send(prepared));
        is_send(custody.shutdown());
    }
    let _ = check;
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    is_shared::<Custody>();
}
