//! The providers folder: what is checked is what runs, and nobody else chooses it (attack 75).

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

use anyhow::{Result, ensure};
use holdfast_api::Provider;
use holdfast_tests::house::{House, cloud_machine, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::world::{PATIENCE, SITE, World, packed, refusal, renamed, run, sha256, state, with_section};

async fn is_refused(world: &World, name: &str, sentence: &str) -> Result<()> {
    let client = world.client()?;
    let seen: Provider = until(&client, name, PATIENCE, |it: &Provider| !refusal(it).is_empty()).await?;
    ensure!(refusal(&seen).contains(sentence), "{name}: expected \"{sentence}\": {}", refusal(&seen));
    fs::remove_file(world.house.providers_dir().join(format!("{name}.wasm")))?;
    world.stands(name).await
}

#[test]
fn a_symbolic_link_is_refused_wherever_it_points_attack_75() {
    run(async |world| {
        let outside = world.house.folder().join("outside.wasm");
        fs::write(&outside, packed(&world.guest, &renamed(&world.manifest, "link")))?;
        symlink(&outside, world.house.providers_dir().join("link.wasm"))?;
        is_refused(world, "link", "it is a symbolic link; copy the file itself into the folder").await
    });
}

#[test]
fn a_pipe_is_refused_and_nobody_waits_for_its_writer_attack_75() {
    run(async |world| {
        let pipe = world.house.providers_dir().join("pipe.wasm");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        is_refused(world, "pipe", "it is a pipe, not a regular file").await
    });
}

#[test]
fn a_file_that_others_can_write_is_refused_attack_75() {
    run(async |world| {
        let bytes = packed(&world.guest, &renamed(&world.manifest, "writable"));
        let partial = world.house.providers_dir().join(".writable.partial");
        fs::write(&partial, bytes)?;
        fs::set_permissions(&partial, Permissions::from_mode(0o664))?;
        fs::rename(&partial, world.house.providers_dir().join("writable.wasm"))?;
        is_refused(world, "writable", "it can be written by others (mode 664); chmod go-w").await
    });
}

#[test]
fn a_file_larger_than_a_module_may_be_is_refused_attack_78() {
    run(async |world| {
        let partial = world.house.providers_dir().join(".large.partial");
        fs::File::create(&partial)?.set_len((64 << 20) + 1)?;
        fs::rename(&partial, world.house.providers_dir().join("large.wasm"))?;
        is_refused(world, "large", "it has 67108865 bytes and a module may have 67108864").await
    });
}

#[test]
fn a_folder_that_others_can_write_gives_no_module_attack_75() {
    run(async |_| {
        // A daemon of its own: the others' providers must not be drawn into it.
        let mut house = House::new()?;
        let mode = |mode| fs::set_permissions(house.providers_dir(), Permissions::from_mode(mode));
        mode(0o770)?;
        house.drop_in("any.wasm", b"not yet looked at")?;
        house.start().await?;
        let says = async |sentence: &str| {
            let client = house.client()?;
            until(&client, "any", PATIENCE, |it: &Provider| refusal(it).contains(sentence)).await
        };
        says("the providers folder can be written by others (mode 770); chmod go-w").await?;
        let mode = |mode| fs::set_permissions(house.providers_dir(), Permissions::from_mode(mode));
        mode(0o700)?;
        says("the file is not WebAssembly").await?;
        house.stop().await
    });
}

/// The file is replaced while the daemon is at work on it, or right after: the end is the same.
#[test]
fn a_file_replaced_while_it_loads_never_serves_and_the_pin_names_the_line_to_change_attacks_75_and_76() {
    run(async |world| {
        let client = world.client()?;
        let first = sha256(&world.pinned);
        world.house.drop_in("swapped.wasm", &world.pinned)?;
        let is = |it: &Provider| it.status.as_ref().is_some_and(|status| status.digest == first);
        let seen: Provider = until(&client, "swapped", PATIENCE, is).await?;
        println!("swapped while the state was {}", state(&seen));
        // Same manifest, same call set, another file.
        let other = with_section(&world.pinned, "note", b"not what was looked at");
        let second = sha256(&other);
        world.house.drop_in("swapped.wasm", &other)?;
        let told = |it: &Provider| refusal(it).contains("the configuration pins another file");
        let seen: Provider = until(&client, "swapped", PATIENCE, told).await?;
        let line = format!(
            "to run this one write sha256 = \"{second}\" instead of \"{first}\" under [[provider]] name = \"swapped\""
        );
        ensure!(refusal(&seen).contains(&line), "the line to change is named: {}", refusal(&seen));
        ensure!(is(&seen) && state(&seen) == "Ready", "the pinned file serves on: {:?}", seen.status);
        // And it works: the guest's own sealed value needs a whole way through the house.
        let server = world.server("swapped")?;
        cloud_machine(&client, "swapped", SITE, "swapped", &format!("hostile://{server}")).await?;
        let more = json!({ "parameters": { "attack": "sealed-own" } });
        holdfast_tests::house::operation(&client, "swapped", "swapped", "HostPowerOff", more).await?;
        let status = holdfast_tests::house::settled(&client, "swapped", PATIENCE).await?;
        ensure!(status.phase == holdfast_api::Phase::Complete, "the pinned file serves on: {status:?}");
        world.stands("swapped").await
    });
}

#[test]
fn a_file_that_is_written_in_place_is_refused_by_halves_and_whole_it_still_waits_for_approval_attack_76() {
    run(async |world| {
        let whole = packed(&world.guest, &renamed(&world.manifest, "slow"));
        let path = world.house.providers_dir().join("slow.wasm");
        let (head, tail) = whole.split_at(whole.len() / 2);
        let mut file = OpenOptions::new().create_new(true).write(true).open(&path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(head)?;
        file.flush()?;
        let client = world.client()?;
        let half = |it: &Provider| refusal(it).contains("the file is damaged");
        until(&client, "slow", PATIENCE, half).await?;
        file.write_all(tail)?;
        drop(file);
        let waits = |it: &Provider| state(it) == "PendingApproval";
        let seen: Provider = until(&client, "slow", PATIENCE, waits).await?;
        let status = seen.status.unwrap_or_default();
        let line = status.add_line.unwrap_or_default();
        ensure!(line.contains(&format!("sha256 = \"{}\"", sha256(&whole))), "the line to add: {line}");
        ensure!(
            line.contains("calls = \"") && !status.meaning.is_empty(),
            "what it means: {:?}",
            status.meaning
        );
        fs::remove_file(path)?;
        world.stands("slow").await
    });
}

#[test]
fn a_second_file_with_the_name_of_a_provider_that_serves_takes_nothing_over_attack_76() {
    run(async |world| {
        let client = world.client()?;
        let bytes = packed(&world.guest, &renamed(&world.manifest, "simulated"));
        let path = world.house.drop_in("aa-impostor.wasm", &bytes)?;
        let sentence = "aa-impostor.wasm also calls itself \"simulated\", which simulated.wasm holds";
        let told = |it: &Provider| refusal(it).contains(sentence);
        let seen: Provider = until(&client, "simulated", PATIENCE, told).await?;
        let digest = seen.status.as_ref().map(|status| status.digest.clone()).unwrap_or_default();
        ensure!(state(&seen) == "Ready" && digest != sha256(&bytes), "the first one serves on: {seen:?}");
        world.stands("impostor").await?;
        fs::remove_file(path)?;
        Ok(())
    });
}
