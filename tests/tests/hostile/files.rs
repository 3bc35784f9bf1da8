//! Files that are no modules of this host: each is refused before anything of it runs, and its `Provider` object says
//! which rule it breaks.

use anyhow::{Result, ensure};
use holdfast_api::Provider;
use holdfast_tests::house::until;

use crate::world::{PATIENCE, World, packed, refusal, run, state, with_section};

const OPERATIONS: &str = "holdfast:provider/operations@0.1.0";

/// Drops the file in, waits for the sentence, and takes it away again.
async fn is_refused(world: &World, name: &str, bytes: &[u8], sentence: &str) -> Result<()> {
    let path = world.house.drop_in(&format!("{name}.wasm"), bytes)?;
    let client = world.client()?;
    let seen: Provider = until(&client, name, PATIENCE, |it: &Provider| !refusal(it).is_empty()).await?;
    let (reason, state) = (refusal(&seen), state(&seen));
    ensure!(reason.contains(sentence), "{name}: expected \"{sentence}\" and read: {reason}");
    ensure!(state == "Refused", "{name} is {state}");
    world.tells_no_secret(name, &serde_json::to_string(&seen)?)?;
    std::fs::remove_file(path)?;
    world.stands(name).await
}

/// A component by its outer shape alone: names without content.
fn outline(imports: &[&str], exports: &[&str]) -> Result<Vec<u8>> {
    let imports: String = imports.iter().map(|name| format!("(import \"{name}\" (instance))")).collect();
    let exports: String =
        exports.iter().map(|name| format!("(export \"{name}\" (instance $empty))")).collect();
    Ok(wat::parse_str(format!("(component {imports} (instance $empty) {exports})"))?)
}

#[test]
fn an_undeclared_import_is_refused_by_name_attack_78() {
    run(async |world| {
        for (name, import, rule) in [
            ("import-of-sockets", "wasi:sockets/tcp@0.2.0", "the only way out of the sandbox"),
            (
                "import-of-nobody",
                "evil:host/escape@1.0.0",
                "only the contract's interfaces and the inert part",
            ),
            ("import-of-secrets", "holdfast:provider/secrets@0.1.0", "the contract has no such import"),
        ] {
            let bytes = packed(&outline(&[import], &[OPERATIONS])?, &world.manifest);
            let sentence = format!("the module imports `{import}`, which no provider is given: {rule}");
            is_refused(world, name, &bytes, &sentence).await?;
        }
        Ok(())
    });
}

#[test]
fn an_extra_export_is_refused_by_name() {
    run(async |world| {
        let bytes = packed(&outline(&[], &[OPERATIONS, "evil:host/backdoor@1.0.0"])?, &world.manifest);
        let sentence =
            "the module exports `evil:host/backdoor@1.0.0`, which is not an interface of the contract";
        is_refused(world, "extra-export", &bytes, sentence).await
    });
}

#[test]
fn another_contract_version_is_refused_with_both_versions_attack_77() {
    run(async |world| {
        let names = (["holdfast:provider/calls@0.2.0"], ["holdfast:provider/operations@0.2.0"]);
        let bytes = packed(&outline(&names.0, &names.1)?, &world.manifest);
        is_refused(world, "wrong-contract", &bytes, "module speaks 0.2.0, this host speaks 0.1").await
    });
}

#[test]
fn a_broken_manifest_is_refused_with_its_line() {
    run(async |world| {
        let text = world.manifest.replacen("effect = \"update\"", "effect = \"upgrade\"", 1);
        let line = text.lines().position(|line| line.contains("upgrade")).unwrap_or_default() + 1;
        let sentence = format!("the manifest was refused: provider.toml:{line}");
        is_refused(world, "broken-manifest", &packed(&world.guest, &text), &sentence).await?;
        let sentence = "no custom section `holdfast:manifest` was found";
        is_refused(world, "no-manifest", &world.guest, sentence).await?;
        let twice = packed(&packed(&world.guest, &world.manifest), &world.manifest);
        let sentence = "the module has 2 custom sections `holdfast:manifest` and exactly one is allowed";
        is_refused(world, "two-manifests", &twice, sentence).await
    });
}

#[test]
fn a_manifest_that_promises_what_the_grammar_forbids_is_refused_h4() {
    run(async |world| {
        let text = world.manifest.replace(", on = \"server\"", "");
        is_refused(world, "no-target", &packed(&world.guest, &text), "L3").await
    });
}

#[test]
fn a_truncated_or_foreign_file_is_refused() {
    run(async |world| {
        let whole = packed(&world.guest, &world.manifest);
        let half = &whole[..whole.len() / 2];
        is_refused(world, "truncated", half, "the file is damaged or uses what this host leaves off").await?;
        let short = &whole[..whole.len() - 1];
        is_refused(world, "truncated-by-one", short, "the file is damaged").await?;
        is_refused(world, "script", b"#!/bin/sh\n", "the file is not WebAssembly").await?;
        let core = wat::parse_str("(module)")?;
        is_refused(world, "core", &core, "this is a core module; build for wasm32-wasip2").await
    });
}

#[test]
fn native_code_in_the_place_of_a_module_is_refused_attack_74() {
    run(async |world| {
        let component = outline(&[], &[OPERATIONS])?;
        let native = wasmtime::Engine::default().precompile_component(&component)?;
        is_refused(world, "native", &native, "the file holds precompiled native code").await
    });
}

#[test]
fn an_interface_of_the_right_name_and_the_wrong_types_never_serves() {
    run(async |world| {
        let text = crate::world::renamed(&world.manifest, "wrong-types");
        let bytes = with_section(&packed(&outline(&[], &[OPERATIONS])?, &text), "note", b"");
        is_refused(world, "wrong-types", &bytes, "the module's types do not fit the contract").await
    });
}
