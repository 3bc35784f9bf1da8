//! The EC2 emulator, with a recording proxy for each allocation: what was made, and what is left, is told by boto3, as
//! another user. The emulator honours no client tokens, so that a blind repeat is a twin.

use anyhow::{Context, Result, ensure};
use holdfast_api::{MachineOperation, OwnedResource};
use holdfast_manifest::Manifest;
use holdfast_tests::counterparts::{Ec2Instance, Ec2Ledger, Moto};
use holdfast_tests::folders::checkout;
use holdfast_tests::house::{Endpoint, credential, credential_secret};
use holdfast_tests::modules::edited;
use holdfast_tests::proxy::Proxy;
use holdfast_tests::tls::RunCa;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::allocation;
use crate::scenario::{Scenario, Service, Start, Subject, there};

type Row = Scenario<()>;

static ROWS: [Row; 1] = [Scenario {
    name: "allocation",
    start: Start::Allocation,
    repeats: &["run", "terminate", "delete-volume", "delete-nic"],
    never: false,
    writes: false,
    turns: usize::MAX,
    world: (),
}];

/// What is asked for a class, and not for what is allocated from it.
const BESIDE: [&str; 5] = [
    "/#DescribeImages",
    "/#DescribeAvailabilityZones",
    "/#DescribeInstanceTypes(instance-type)",
    "/#DescribeInstanceTypeOfferings(instance-type)",
    "/#DescribeInstances(tag-key)",
];

const ZONE: &str = "us-east-1b";

pub struct Ec2 {
    moto: Moto,
    ca: RunCa,
    /// What was there before any daemon, and must be there at the end, as it was.
    strangers: Ec2Ledger,
    /// Instances that were made for allocations, and have ended.
    released: Mutex<BTreeSet<String>>,
}

impl Ec2 {
    fn released(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Two instances of other people: one bears our marker, as those of another Holdfast in the account do.
    async fn settle_strangers(&self) -> Result<Ec2Ledger> {
        let tags = |kind: &str| json!({ "ResourceType": kind, "Tags": [{ "Key": "holdfast", "Value": "of-another" }] });
        let plain = json!({
            "ImageId": Moto::IMAGE, "InstanceType": "t3.micro", "MinCount": 1, "MaxCount": 1,
            "Placement": { "AvailabilityZone": ZONE },
        });
        let mut marked = plain.clone();
        marked["TagSpecifications"] = ["instance", "volume", "network-interface"].map(tags).into();
        let calls = [("ec2", "run_instances", plain), ("ec2", "run_instances", marked)];
        for made in self.moto.calls(self.moto.provider(), &calls).await? {
            made.map_err(anyhow::Error::msg).context("an instance of a stranger")?;
        }
        let ledger = self.moto.ledger().await?;
        let counts = (ledger.alive().count(), ledger.volumes.len(), ledger.nics.len());
        ensure!(counts == (2, 2, 2), "two strangers were to be there: {ledger:#?}");
        Ok(ledger)
    }

    /// One instance was made for the subject, and it has ended with all that came with it.
    async fn judge_one(&self, subject: &Subject<()>, client: &Client, ledger: &Ec2Ledger) -> Result<()> {
        let name = &subject.name;
        let owned = owned(subject, client).await?;
        let ids = |kind: &str| {
            let of_kind = owned.iter().filter(|one| one.kind == kind);
            of_kind.map(|one| one.id.clone()).collect::<BTreeSet<_>>()
        };
        let (instances, volumes, nics) = (ids("instance"), ids("volume"), ids("nic"));
        let counts = (instances.len(), volumes.len(), nics.len());
        ensure!(counts == (1, 1, 1), "{name} was to own one of each kind: {owned:#?}");
        let id = instances.first().context("an instance")?;
        let one = ledger.instances.iter().find(|one| one.id == *id);
        let one = one.with_context(|| format!("{name}: the emulator has never heard of {id}"))?;
        ensure!(one.state == "terminated", "{name}: {id} was to be terminated and is {}", one.state);
        let token = |one: &Ec2Instance| one.tags["holdfast"].as_str().map(str::to_owned);
        ensure!(token(one).is_some_and(|it| it == one.client_token), "{name}: {one:#?} bears another token");
        let twins: Vec<_> = ledger.instances.iter().filter(|it| token(it) == token(one)).collect();
        ensure!(twins.len() == 1, "{name}: {} instances were made for it: {twins:#?}", twins.len());
        let data = one.user_data.as_deref();
        ensure!(data == Some(allocation::FIRST_BOOT_DATA.as_bytes()), "{name}: other first-boot data");
        let volumes: Vec<_> = ledger.volumes.iter().filter(|(id, ..)| volumes.contains(id)).collect();
        let nics: Vec<_> = ledger.nics.iter().filter(|(id, _)| nics.contains(id)).collect();
        ensure!(volumes.is_empty() && nics.is_empty(), "{name}: left over are {volumes:?} and {nics:?}");
        self.released().insert(id.clone());
        Ok(())
    }
}

/// What the operations of an allocation have on record as made for it.
async fn owned(subject: &Subject<()>, client: &Client) -> Result<Vec<OwnedResource>> {
    let operations: Api<MachineOperation> = Api::all(client.clone());
    let list = operations.list(&ListParams::default()).await.context("listing operations")?;
    let ours = list.items.into_iter().filter(|operation| subject.has(operation));
    let allocate = ours.filter(|operation| operation.spec.operation_kind == "HostAllocate");
    Ok(allocate.filter_map(|operation| operation.status).flat_map(|status| status.owned_resources).collect())
}

fn site(name: &str) -> String {
    format!("site-of-{name}")
}

impl Service for Ec2 {
    const NAME: &'static str = "ec2 (the moto emulator)";
    const PROVIDER: &'static str = "ec2";
    type World = ();

    async fn start() -> Result<Self> {
        let text = std::fs::read_to_string(checkout().join("providers/ec2/provider.toml"))?;
        let manifest = Manifest::parse(&text).map_err(|errors| anyhow::anyhow!("{errors}"))?;
        let ca = RunCa::new()?;
        let moto = Moto::start(&ca, &Moto::actions(&manifest)).await?;
        let mut service = Ec2 { moto, ca, strangers: Ec2Ledger::default(), released: Mutex::default() };
        service.strangers = service.settle_strangers().await?;
        Ok(service)
    }

    /// The emulator's lists never lag: that an instance is absent is believed after a second, not after two minutes.
    fn edit(module: &mut [u8]) -> Result<()> {
        edited(module, "absent-after = \"120s\"", "absent-after = \"1s\"  ")
    }

    fn scenarios(&self) -> &'static [Row] {
        &ROWS
    }

    async fn subject(&self, name: &str, scenario: &'static Row) -> Result<Subject<()>> {
        let proxy = Proxy::start(&self.moto.origin(), self.moto.ca_pem(), &self.ca).await?;
        Ok(Subject { beside: &BESIDE, ..Subject::new(name, scenario, String::new(), proxy) })
    }

    /// Each subject has a site of its own, and so an address of its own.
    fn endpoint(&self, subject: &Subject<()>) -> Endpoint {
        let endpoint = Endpoint::at("ec2", &subject.proxy.origin(), self.ca.pem());
        Endpoint { site: Some(site(&subject.name)), ..endpoint }.with_var("region", Moto::REGION)
    }

    async fn set_up(&self, subject: &Subject<()>, client: &Client) -> Result<()> {
        let (site, key) = (site(&subject.name), self.moto.provider());
        allocation::first_boot(client).await?;
        let values = [("access-key", key.id.as_bytes()), ("secret-key", key.secret.as_bytes())];
        there(credential_secret(client, "aws", "ec2", &values).await)?;
        there(credential(client, &site, "ec2", "aws").await)?;
        // A root volume of its own size: the emulator leaves that behind when the instance ends.
        let config = json!({
            "image": Moto::IMAGE, "instance-types": "t3.micro", "zones": ZONE,
            "root-device": "sda1", "root-size": "8",
        });
        allocation::class(client, &subject.name, &site, "ec2", config).await
    }

    /// No call of it is declared `never`.
    async fn happened(&self, _: &Subject<()>) -> bool {
        false
    }

    async fn judge(&self, subject: &Subject<()>, client: &Client) -> Result<()> {
        let ledger = self.moto.ledger().await?;
        self.judge_one(subject, client, &ledger).await
    }

    /// The emulator is asked once for all.
    async fn judge_all(&self, subjects: &[Subject<()>], client: &Client) -> Result<()> {
        let ledger = self.moto.ledger().await?;
        for subject in subjects {
            self.judge_one(subject, client, &ledger).await?;
        }
        Ok(())
    }

    /// Every instance that there ever was is a stranger's or was one allocation's, and only the strangers are left.
    async fn judge_rest(&self) -> Result<()> {
        let (ledger, released) = (self.moto.ledger().await?, self.released().clone());
        let ended: BTreeSet<String> = ledger
            .instances
            .iter()
            .filter(|one| self.strangers.instances.iter().all(|stranger| stranger.id != one.id))
            .map(|one| one.id.clone())
            .collect();
        ensure!(ended == released, "made were {ended:?}, and for allocations {released:?}");
        let alive = |ledger: &Ec2Ledger| -> BTreeSet<(String, String)> {
            ledger.alive().map(|one| (one.id.clone(), one.state.clone())).collect()
        };
        ensure!(alive(&ledger) == alive(&self.strangers), "other than the strangers are alive: {ledger:#?}");
        let parts = |ledger: &Ec2Ledger| -> BTreeSet<String> {
            let volumes = ledger.volumes.iter().map(|(id, state, _)| format!("{id} {state}"));
            volumes.chain(ledger.nics.iter().map(|(id, state)| format!("{id} {state}"))).collect()
        };
        let (left, theirs) = (parts(&ledger), parts(&self.strangers));
        ensure!(left == theirs, "left over are {left:?}, and the strangers have {theirs:?}");
        Ok(())
    }
}
