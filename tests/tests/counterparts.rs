//! The clouds' emulators, each driven by the official client of the real cloud: they start, ask for their credentials,
//! and make, list and delete. What they are known not to do is written down here too, since tests lean on it.

use holdfast_manifest::{Body, Manifest};
use holdfast_tests::{
    client::Client,
    counterparts::{AccessKey, Cloudalone, Moto},
    tls::RunCa,
};
use serde_json::{Value, json};

/// The actions of EC2 that the shipped provider's calls need: each names its own. Tags at create are a right of their own.
fn actions_of_the_provider() -> Vec<String> {
    let path = holdfast_tests::folders::checkout().join("providers/ec2/provider.toml");
    let manifest = Manifest::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let action = |body: &Body| match body {
        Body::Form(pairs) => pairs.iter().find(|(key, _)| key == "Action").map(|(_, value)| value.clone()),
        _ => None,
    };
    let mut actions: Vec<String> = manifest.calls.values().filter_map(|call| action(&call.body)).collect();
    assert_eq!(actions.len(), manifest.calls.len(), "each call of the provider is an action");
    actions.push("CreateTags".to_owned());
    actions
}

async fn moto() -> Moto {
    Moto::start(&RunCa::new().unwrap(), &actions_of_the_provider()).await.unwrap()
}

/// RunInstances as the provider sends it.
fn run(token: &str) -> Value {
    let tags = |kind: &str| json!({ "ResourceType": kind, "Tags": [{ "Key": "holdfast", "Value": token }] });
    json!({
        "ImageId": Moto::IMAGE, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1, "ClientToken": token,
        "Placement": { "AvailabilityZone": "us-east-1b" }, "UserData": "#cloud-config\n{}\n",
        "TagSpecifications": [tags("instance"), tags("volume"), tags("network-interface")],
    })
}

async fn one(moto: &Moto, key: &AccessKey, operation: &str, arguments: Value) -> Result<Value, String> {
    moto.calls(key, &[("ec2", operation, arguments)]).await.unwrap().remove(0)
}

#[tokio::test]
async fn moto_makes_lists_and_ends_an_instance_for_the_key_that_may() {
    let moto = moto().await;
    assert!(moto.ledger().await.unwrap().instances.is_empty());
    let made = one(&moto, moto.provider(), "run_instances", run("hftoken")).await.unwrap();
    let id = made["Instances"][0]["InstanceId"].as_str().unwrap().to_owned();

    let ledger = moto.ledger().await.unwrap();
    let [seen] = ledger.instances.as_slice() else { panic!("{ledger:?}") };
    assert_eq!((seen.id.as_str(), seen.state.as_str()), (id.as_str(), "running"));
    assert_eq!((seen.instance_type.as_str(), seen.zone.as_str()), ("t3.micro", "us-east-1b"));
    assert_eq!((seen.image.as_str(), seen.client_token.as_str()), (Moto::IMAGE, "hftoken"));
    assert_eq!(seen.tags, json!({ "holdfast": "hftoken" }));
    assert_eq!(seen.user_data.as_deref(), Some(b"#cloud-config\n{}\n".as_slice()));
    assert_eq!((seen.volumes.len(), seen.nics.len()), (1, 1));
    assert_eq!(ledger.volumes[0].2, json!({ "holdfast": "hftoken" }));

    one(&moto, moto.provider(), "terminate_instances", json!({ "InstanceIds": [id] })).await.unwrap();
    let ledger = moto.ledger().await.unwrap();
    assert_eq!(ledger.alive().count(), 0);
    assert_eq!(ledger.instances[0].state, "terminated", "ended instances stay listed");
    // What a release has to care for: nobody deletes it here.
    assert_eq!(ledger.nics[0].1, "in-use");
    let nic = json!({ "NetworkInterfaceId": ledger.nics[0].0 });
    one(&moto, moto.provider(), "delete_network_interface", nic).await.unwrap();
    assert!(moto.ledger().await.unwrap().nics.is_empty());
}

#[tokio::test]
async fn moto_asks_for_a_signature_and_for_a_policy_that_allows_the_call() {
    let moto = moto().await;
    let provider = moto.provider();
    let wrong = AccessKey { id: provider.id.clone(), secret: "not-the-secret".to_owned() };
    let unknown = AccessKey { id: "AKIAUNKNOWN".to_owned(), secret: provider.secret.clone() };
    for key in [&wrong, &unknown] {
        let refused = one(&moto, key, "describe_instances", json!({})).await.unwrap_err();
        assert!(["AuthFailure", "SignatureDoesNotMatch"].contains(&refused.as_str()), "{refused}");
    }
    // A good signature of a user whose policy does not name the action.
    let attribute = json!({ "InstanceId": "i-1", "Attribute": "userData" });
    for (operation, arguments) in
        [("describe_key_pairs", json!({})), ("describe_instance_attribute", attribute)]
    {
        let refused = one(&moto, provider, operation, arguments).await.unwrap_err();
        assert!(["AccessDenied", "UnauthorizedOperation"].contains(&refused.as_str()), "{refused}");
    }
    let unsigned = moto.client().unwrap().get("/?Action=DescribeInstances&Version=2016-11-15").await.unwrap();
    // It answers 500 where the service says 4xx; what matters is that it is no yes.
    assert!(!unsigned.status.is_success(), "{}", unsigned.status);
    let trusting_others = Client::new(&moto.origin(), RunCa::new().unwrap().pem()).unwrap();
    assert!(trusting_others.get("/moto-api/data.json").await.is_err());
}

#[tokio::test]
async fn moto_keeps_no_client_tokens_so_that_only_a_lookup_prevents_a_twin() {
    let moto = moto().await;
    for _ in 0..2 {
        one(&moto, moto.provider(), "run_instances", run("hftwin")).await.unwrap();
    }
    let filter = json!({ "Filters": [{ "Name": "tag:holdfast", "Values": ["hftwin"] }] });
    let found = one(&moto, moto.provider(), "describe_instances", filter).await.unwrap();
    assert_eq!(found["Reservations"].as_array().unwrap().len(), 2);
    assert_eq!(moto.ledger().await.unwrap().alive().count(), 2);
}

const TOKEN: &str = "a-token-of-the-hetzner-emulator";

fn server(name: &str) -> Value {
    json!({
        "name": name, "server_type": Cloudalone::TYPE, "image": Cloudalone::IMAGE, "user_data": "#cloud-config\n{}\n",
    })
}

#[tokio::test]
async fn cloudalone_makes_lists_and_deletes_a_server_for_the_token() {
    let cloud = Cloudalone::start(&RunCa::new().unwrap(), TOKEN).await.unwrap();
    let made = cloud.call(TOKEN, "create", server("hfone")).await.unwrap().unwrap();
    assert_eq!(made["status"], "running");

    let servers = cloud.servers().await.unwrap();
    let [seen] = servers.as_slice() else { panic!("{servers:?}") };
    assert_eq!((seen.name.as_str(), seen.server_type.as_str()), ("hfone", Cloudalone::TYPE));
    assert_eq!(seen.image.as_deref(), Some(Cloudalone::IMAGE));
    assert_eq!(cloud.user_data("hfone").await.unwrap().as_deref(), Some("#cloud-config\n{}\n"));

    // The name is what stands for a request token.
    let twin = cloud.call(TOKEN, "create", server("hfone")).await.unwrap().unwrap_err();
    assert_eq!(twin, "uniqueness_error");
    let act = |action: &str| json!({ "id": seen.id, "action": action });
    cloud.call(TOKEN, "act", act("power_off")).await.unwrap().unwrap();
    assert_eq!(cloud.servers().await.unwrap()[0].status, "off");
    cloud.call(TOKEN, "act", act("delete")).await.unwrap().unwrap();
    assert!(cloud.servers().await.unwrap().is_empty());
    assert_eq!(cloud.call(TOKEN, "act", act("delete")).await.unwrap().unwrap_err(), "not_found");
}

#[tokio::test]
async fn cloudalone_asks_for_its_token_and_keeps_its_state_when_it_is_killed() {
    let mut cloud = Cloudalone::start(&RunCa::new().unwrap(), TOKEN).await.unwrap();
    assert_eq!(cloud.call("another", "servers", json!({})).await.unwrap().unwrap_err(), "unauthorized");
    let anonymous = cloud.client().unwrap().anonymous().get("/v1/servers").await.unwrap();
    assert_eq!(anonymous.status, 401);

    cloud.call(TOKEN, "create", server("hfkept")).await.unwrap().unwrap();
    let origin = cloud.origin();
    cloud.kill().unwrap();
    assert!(cloud.client().unwrap().get("/v1/servers").await.is_err());
    cloud.restart().await.unwrap();
    assert_eq!(cloud.origin(), origin);
    assert_eq!(cloud.servers().await.unwrap()[0].name, "hfkept");
}
