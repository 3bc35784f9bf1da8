//! First-boot data that must not be seen anywhere but at the cloud, where it must be the same to the byte.

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use holdfast_api::{AllocationPhase, MachineOperation};
use holdfast_simulated_cloud::{Options, encode};
use holdfast_tests::modules::edited;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::looks::sightings;
use crate::world::{SYSTEM, World, module};

/// A password with quotes, backslashes, and characters beyond ASCII.
const PASSWORD: &str = "P\u{e4}\"ss\\w\u{f6}rd\u{1f980}/<&>%41+7Qz3Lk";
/// One line of a private key.
const KEY_LINE: &str = "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0Q4x7ZtR9";
/// What stands in data that is hostile to JSON.
const HOSTILE: &str = "cn\"}],{\\u0041\\\\\u{2028}</script>{{7*7}}${x}%00'";
/// What stands in data at the limit.
const LONG: &str = "cnry-Lw4Vb8Tn3Rf6Hd1Jm5Gs0Py";
/// Everything but what the compiler of modules tells of its work, which is most of it and knows no secret.
const TRACE: &str =
    "trace,cranelift_codegen=info,cranelift_frontend=info,regalloc2=info,wasmtime_internal_cranelift=info";
/// Of the slot in the manifest.
const LIMIT: usize = 32_768;

fn cloud_init() -> String {
    format!(
        "#cloud-config\npassword: {PASSWORD}\nwrite_files:\n  - path: /etc/agent/key.pem\n    content: |\n      \
         -----BEGIN OPENSSH PRIVATE KEY-----\n      {KEY_LINE}\n      -----END OPENSSH PRIVATE KEY-----\n\
         runcmd: ['echo \"it\\'s \\\\ up\"']\n"
    )
}

fn long(bytes: usize) -> String {
    LONG.chars().cycle().take(bytes).collect()
}

/// Allocates a host for each, and asks the cloud for what arrived.
async fn arrived(world: &World, name: &str, data: &[u8]) -> Result<Vec<u8>> {
    world.first_boot(name, data).await?;
    world.allocate(name, "standard", json!({ "userData": { "secretRef": { "name": name } } })).await?;
    let (_, id) = world.allocated(name).await?;
    Ok(world.cloud.user_data(&id).unwrap_or_default())
}

/// No bytes are kept for a repeat once there is nothing to repeat.
async fn nothing_kept(world: &World) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(world.client()?, SYSTEM);
    let secrets = secrets.list(&ListParams::default()).await?;
    let kept: Vec<_> =
        secrets.iter().filter(|it| it.type_.as_deref() == Some("holdfast.dev/first-boot-data")).collect();
    assert!(kept.is_empty(), "{kept:?}");
    Ok(())
}

#[tokio::test]
async fn first_boot_data_reaches_the_cloud_byte_for_byte_and_is_seen_nowhere_else_r2_14() -> Result<()> {
    let world = World::with(Options::default(), TRACE, module().await?).await?;
    world.class("standard", &[("image", "image-1")]).await?;
    let data = [
        ("cloud-init", cloud_init()),
        ("hostile", format!("\"{HOSTILE}\",\r\n\t\u{1}\u{7f}{{\"user_data\":\"{HOSTILE}\"}}")),
        ("short-of-it", long(LIMIT - 1)),
        ("at-the-limit", long(LIMIT)),
    ];
    for (name, text) in &data {
        let got = arrived(&world, name, text.as_bytes()).await?;
        assert!(got == text.as_bytes(), "{name}: {} bytes arrived of {}", got.len(), text.len());
    }

    // One byte more is refused, with a sentence and without a request.
    let before = world.cloud.ledger().effects.len();
    world.first_boot("too-long", long(LIMIT + 1).as_bytes()).await?;
    let source = json!({ "userData": { "secretRef": { "name": "too-long" } } });
    world.allocate("too-long", "standard", source).await?;
    let status = world.until("too-long", |status| status.phase == AllocationPhase::Failed).await?;
    let message = status.message.unwrap_or_default();
    assert!(message.contains("32768"), "the limit is named: {:?} {message}", status.reason);
    assert_eq!(world.cloud.ledger().effects.len(), before, "nothing was made");

    nothing_kept(&world).await?;
    let secrets: [&[u8]; 4] = [PASSWORD.as_bytes(), KEY_LINE.as_bytes(), HOSTILE.as_bytes(), LONG.as_bytes()];
    let objects = ["machineallocation/cloud-init", "machineallocation/hostile", "machineallocation/too-long"];
    let seen = sightings(&world, &secrets, &objects).await?;
    assert!(seen.is_empty(), "seen outside of custody: {seen:#?}");

    for (name, _) in &data {
        world.release(name).await?;
    }
    world.release("too-long").await?;
    world.nothing_left().await?;
    let seen = sightings(&world, &secrets, &[]).await?;
    assert!(seen.is_empty(), "seen outside of custody: {seen:#?}");
    Ok(())
}

#[tokio::test]
async fn bytes_that_are_no_text_reach_a_cloud_that_takes_base64_byte_for_byte_r2_14() -> Result<()> {
    let mut module = module().await?;
    edited(&mut module, "encode = [\"utf8\"]\nmax-bytes = 32768", "encode = [\"base64\"]\nmax-bytes=32768")?;
    let world = World::with(Options::default(), TRACE, module).await?;
    world.cloud.behave(|behaviour| behaviour.user_data.base64 = true);
    world.class("standard", &[("image", "image-1")]).await?;
    let gzip = STANDARD.decode(encode("gzip-base64", cloud_init().as_bytes()).expect("a form"))?;
    let edge: Vec<u8> = gzip.iter().copied().cycle().take(LIMIT / 4 * 3).collect();
    let bytes: Vec<u8> = (0..=255).collect();
    for (name, data) in [("gzip", &gzip), ("edge", &edge), ("bytes", &bytes)] {
        let got = arrived(&world, name, data).await?;
        assert!(STANDARD.decode(&got)? == *data, "{name}: decoded once it is what was given");
    }
    nothing_kept(&world).await?;
    let operations = Api::<MachineOperation>::all(world.client()?).list(&ListParams::default()).await?;
    assert_eq!(operations.items.len(), 3);
    let seen = sightings(&world, &[&gzip[20..60], PASSWORD.as_bytes()], &["machineallocation/gzip"]).await?;
    assert!(seen.is_empty(), "seen outside of custody: {seen:#?}");
    for name in ["gzip", "edge", "bytes"] {
        world.release(name).await?;
    }
    world.nothing_left().await?;
    Ok(())
}
