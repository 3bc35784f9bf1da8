//! The moto emulator of EC2 and IAM, unchanged, over TLS, with signatures and policies enforced. Asked by boto3.
//!
//! It stores client tokens and ignores them: a create that is sent twice makes two instances. It leaves the network
//! interface of an ended instance behind, in use by nobody. Its state is gone when it is.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use holdfast_manifest::{Body, Manifest};
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ask::ask, environment, server::Server};
use crate::{client::Client, folders::checkout, tls::RunCa};

/// An access key of the emulator's one account.
#[derive(Clone)]
pub struct AccessKey {
    pub id: String,
    pub secret: String,
}

/// A running emulator. Ends when dropped, and with this process.
pub struct Moto {
    folder: TempDir,
    environment: PathBuf,
    ca_pem: String,
    server: Server,
    provider: AccessKey,
    auditor: AccessKey,
}

/// What is there, told by boto3: ended instances too, for as long as the emulator lists them.
#[derive(Clone, Debug, Default)]
pub struct Ec2Ledger {
    pub instances: Vec<Ec2Instance>,
    /// Id, status and tags.
    pub volumes: Vec<(String, String, Value)>,
    /// Id and status.
    pub nics: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct Ec2Instance {
    pub id: String,
    pub state: String,
    pub instance_type: String,
    pub zone: String,
    pub image: String,
    pub client_token: String,
    /// Key to value.
    pub tags: Value,
    /// As the instance would read it.
    pub user_data: Option<Vec<u8>>,
    pub volumes: Vec<String>,
    pub nics: Vec<String>,
}

impl Ec2Ledger {
    /// Instances that run, or may again.
    pub fn alive(&self) -> impl Iterator<Item = &Ec2Instance> {
        self.instances.iter().filter(|one| !matches!(one.state.as_str(), "terminated" | "shutting-down"))
    }
}

impl Moto {
    /// The emulator takes any; keys are bound to it.
    pub const REGION: &str = "us-east-1";
    /// One of the images that it comes with: x86_64, available.
    pub const IMAGE: &str = "ami-03cf127a";

    /// The actions that a manifest's calls name, and the right to tag what is made.
    pub fn actions(manifest: &Manifest) -> Vec<String> {
        let named = manifest.calls.values().filter_map(|call| match &call.body {
            Body::Form(pairs) => {
                pairs.iter().find(|(key, _)| key == "Action").map(|(_, value)| value.clone())
            }
            _ => None,
        });
        named.chain(["CreateTags".to_owned()]).collect()
    }

    /// Installs it when needed, starts it on an ephemeral loopback port, makes two users and turns enforcement on. The
    /// provider's key may do exactly `actions` of EC2 (`RunInstances`, …).
    pub async fn start(ca: &RunCa, actions: &[String]) -> Result<Moto> {
        let environment = tokio::task::spawn_blocking(|| {
            environment::ensure("moto", include_str!("../../counterparts/moto.txt"))
        })
        .await??;
        let folder = tempfile::Builder::new().prefix("holdfast-moto-").tempdir()?;
        let certificate = ca.issue("moto emulator", &[])?;
        let (crt, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
        fs::write(&crt, certificate.certificate_pem)?;
        fs::write(&key, certificate.key_pem)?;
        fs::write(folder.path().join("ca.crt"), ca.pem())?;

        let mut command = Command::new(environment.join("bin/python"));
        command.arg(checkout().join("tests/counterparts/run_moto.py"));
        command.args(["-H", "127.0.0.1", "-p", "0", "-c"]).arg(crt).arg("-k").arg(key);
        command.env("INITIAL_NO_AUTH_ACTION_COUNT", "inf");
        let server = Server::start("the moto emulator", command, "Running on https://127.0.0.1:").await?;

        let nobody = AccessKey { id: "none".into(), secret: "none".into() };
        let ca_pem = ca.pem().to_owned();
        let (provider, auditor) = (nobody.clone(), nobody);
        let mut moto = Moto { folder, environment, ca_pem, server, provider, auditor };
        let client = moto.client()?;
        moto.server.until(async || Ok(client.get("/moto-api/data.json").await?.status == 200)).await?;
        moto.provider = moto.user("holdfast", actions).await?;
        let looks = [
            "DescribeInstances",
            "DescribeInstanceAttribute",
            "DescribeVolumes",
            "DescribeNetworkInterfaces",
        ];
        moto.auditor = moto.user("auditor", &looks.map(String::from)).await?;
        moto.enforce().await?;
        Ok(moto)
    }

    /// A user with a key that may do exactly this.
    async fn user(&self, name: &str, actions: &[String]) -> Result<AccessKey> {
        let actions: Vec<String> = actions.iter().map(|action| format!("ec2:{action}")).collect();
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{ "Effect": "Allow", "Action": actions, "Resource": "*" }],
        });
        let made = self
            .calls(&self.provider, &[
                ("iam", "create_user", json!({ "UserName": name })),
                ("iam", "put_user_policy", json!({
                    "UserName": name, "PolicyName": "exactly-this", "PolicyDocument": policy.to_string(),
                })),
                ("iam", "create_access_key", json!({ "UserName": name })),
            ])
            .await?;
        let key = made.into_iter().next_back().context("an answer to each call")?;
        let key = key.map_err(|code| anyhow::anyhow!("the emulator makes no user: {code}"))?;
        let text = |name: &str| key["AccessKey"][name].as_str().map(str::to_owned);
        let (id, secret) = (text("AccessKeyId"), text("SecretAccessKey"));
        Ok(AccessKey { id: id.context("no access key id")?, secret: secret.context("no secret")? })
    }

    /// From now on each call needs a good signature of a user whose policy allows it.
    async fn enforce(&self) -> Result<()> {
        let mut headers = HeaderMap::new();
        // As a form it would be parsed, and is none.
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let reply =
            self.client()?.exchange(Method::POST, "/moto-api/reset-auth", headers, Bytes::from("0")).await?;
        ensure!(reply.status == 200, "the emulator does not turn authentication on: {}", reply.status);
        Ok(())
    }

    /// `https://127.0.0.1:port`.
    pub fn origin(&self) -> String {
        format!("https://127.0.0.1:{}", self.server.port)
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The key that may do what the provider does.
    pub fn provider(&self) -> &AccessKey {
        &self.provider
    }

    /// A client without credentials.
    pub fn client(&self) -> Result<Client> {
        Client::new(&self.origin(), &self.ca_pem)
    }

    /// Calls by boto3 in their order: (service, operation, arguments). Each answers with its reply or an error code.
    pub async fn calls(
        &self,
        key: &AccessKey,
        calls: &[(&str, &str, Value)],
    ) -> Result<Vec<std::result::Result<Value, String>>> {
        let request = json!({
            "endpoint": self.origin(),
            "ca": self.folder.path().join("ca.crt"),
            "region": Moto::REGION,
            "id": key.id,
            "secret": key.secret,
            "calls": calls,
        });
        let answers =
            ask(&self.environment, "ask_aws.py", &self.folder.path().join("ca.crt"), request).await?;
        let Value::Array(answers) = answers else { bail!("boto3 answers with no list") };
        let outcome = |answer: &Value| match answer["error"].as_str() {
            Some(code) => Err(code.to_owned()),
            None => Ok(answer["ok"].clone()),
        };
        Ok(answers.iter().map(outcome).collect())
    }

    /// What is there now, asked by a user of its own who may only look.
    pub async fn ledger(&self) -> Result<Ec2Ledger> {
        let none = || json!({});
        let replies = self
            .calls(
                &self.auditor,
                &[
                    ("ec2", "describe_instances", none()),
                    ("ec2", "describe_volumes", none()),
                    ("ec2", "describe_network_interfaces", none()),
                ],
            )
            .await?;
        let [Ok(instances), Ok(volumes), Ok(nics)] = replies.as_slice() else {
            bail!("the auditor may not look: {replies:?}");
        };
        let reservations = instances["Reservations"].as_array().into_iter().flatten();
        let mut found: Vec<Ec2Instance> = reservations
            .flat_map(|one| one["Instances"].as_array().into_iter().flatten())
            .map(instance)
            .collect();
        self.add_user_data(&mut found).await?;
        let list = |reply: &Value, key: &str| reply[key].as_array().cloned().unwrap_or_default();
        Ok(Ec2Ledger {
            instances: found,
            volumes: list(volumes, "Volumes")
                .iter()
                .map(|one| (text(&one["VolumeId"]), text(&one["State"]), tags(one)))
                .collect(),
            nics: list(nics, "NetworkInterfaces")
                .iter()
                .map(|one| (text(&one["NetworkInterfaceId"]), text(&one["Status"])))
                .collect(),
        })
    }

    async fn add_user_data(&self, instances: &mut [Ec2Instance]) -> Result<()> {
        let asked: Vec<(&str, &str, Value)> = instances
            .iter()
            .map(|one| json!({ "InstanceId": one.id, "Attribute": "userData" }))
            .map(|arguments| ("ec2", "describe_instance_attribute", arguments))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let answers = self.calls(&self.auditor, &asked).await?;
        for (one, answer) in instances.iter_mut().zip(answers) {
            let answer = answer.map_err(|code| anyhow::anyhow!("no user data of {}: {code}", one.id))?;
            let encoded = answer["UserData"]["Value"].as_str();
            one.user_data =
                encoded.map(|text| STANDARD.decode(text)).transpose().context("user data is base64")?;
        }
        Ok(())
    }

    /// The last lines that it logged.
    pub fn log(&self) -> String {
        self.server.log()
    }
}

fn instance(one: &Value) -> Ec2Instance {
    let ids = |list: &Value, id: &dyn Fn(&Value) -> String| {
        list.as_array().into_iter().flatten().map(id).collect::<Vec<String>>()
    };
    Ec2Instance {
        id: text(&one["InstanceId"]),
        state: text(&one["State"]["Name"]),
        instance_type: text(&one["InstanceType"]),
        zone: text(&one["Placement"]["AvailabilityZone"]),
        image: text(&one["ImageId"]),
        client_token: text(&one["ClientToken"]),
        tags: tags(one),
        user_data: None,
        volumes: ids(&one["BlockDeviceMappings"], &|disk| text(&disk["Ebs"]["VolumeId"])),
        nics: ids(&one["NetworkInterfaces"], &|nic| text(&nic["NetworkInterfaceId"])),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn tags(one: &Value) -> Value {
    let tags = one["Tags"].as_array().into_iter().flatten();
    tags.map(|tag| (text(&tag["Key"]), tag["Value"].clone())).collect::<serde_json::Map<_, _>>().into()
}
