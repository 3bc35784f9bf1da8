//! What is refused before it runs, each with the sentence that says what to change (attack 78, rule L11).

mod support;

use holdfast_runtime::{LoadError, inspect};
use support::*;
use wasm_encoder::ComponentSection;

const OPERATIONS: &str = "holdfast:provider/operations@0.1.0";

fn refusal(bytes: &[u8]) -> LoadError {
    inspect(bytes).map(|_| ()).expect_err("refused")
}

#[test]
fn a_plain_module_loads_and_says_what_it_is() {
    let bytes = guest("", "(i32.const 1024)");
    let module = load(&engine(), &bytes);
    assert_eq!(module.name(), "tiny");
    assert_eq!(module.contract(), "0.1.0");
    assert_eq!(module.size(), bytes.len());
    assert_eq!(module.digest().len(), 64);
    assert!(module.inspected().exports.iter().any(|name| name == OPERATIONS));
    assert!(module.reads_state(module.manifest().provider.state_version));
}

#[test]
fn a_core_module_is_refused_with_the_target_to_build_for() {
    let error = refusal(&wat::parse_str("(module)").unwrap());
    assert_eq!(error, LoadError::CoreModule);
    assert!(error.to_string().contains("wasm32-wasip2"));
}

#[test]
fn text_and_empty_files_are_refused() {
    assert_eq!(refusal(b""), LoadError::NotWasm);
    assert_eq!(refusal(b"#!/bin/sh\n"), LoadError::NotWasm);
}

#[test]
fn a_truncated_file_is_refused_wherever_it_ends() {
    let bytes = guest("", "(i32.const 1024)");
    for part in [9, bytes.len() / 4, bytes.len() / 2, bytes.len() - 1] {
        let error = refusal(&bytes[..part]);
        assert!(matches!(error, LoadError::Malformed(_) | LoadError::NoContract), "{part}: {error}");
    }
}

#[test]
fn precompiled_code_is_refused_attack_74() {
    let engine = wasmtime::Engine::default();
    let native = engine.precompile_component(&guest("", "(i32.const 1024)")).unwrap();
    assert_eq!(refusal(&native), LoadError::Precompiled);
}

#[test]
fn a_module_without_a_manifest_is_refused() {
    assert_eq!(refusal(&component("", "(i32.const 1024)")), LoadError::NoManifest);
}

#[test]
fn two_manifests_are_refused() {
    let bytes = with_manifest(&guest("", "(i32.const 1024)"), MANIFEST);
    assert_eq!(refusal(&bytes), LoadError::SeveralManifests(2));
}

#[test]
fn a_manifest_that_is_no_text_or_too_large_is_refused() {
    let plain = component("", "(i32.const 1024)");
    assert_eq!(
        refusal(&with_section(&plain, "holdfast:manifest", &[0xff, 0xfe])),
        LoadError::ManifestNotText
    );
    let large = vec![b'#'; (256 << 10) + 1];
    let error = refusal(&with_section(&plain, "holdfast:manifest", &large));
    assert_eq!(error, LoadError::ManifestTooLarge { size: large.len() });
}

#[test]
fn a_broken_manifest_is_refused_with_its_line() {
    let text = MANIFEST.replace("effect = \"read\"", "effect = \"reed\"");
    let error = refusal(&with_manifest(&component("", "(i32.const 1024)"), &text));
    assert!(matches!(&error, LoadError::Manifest(text) if text.contains("provider.toml:")), "{error}");
}

#[test]
fn another_contract_version_is_refused_by_its_names_attack_77() {
    let bytes = outline(&["holdfast:provider/calls@0.2.0"], &["holdfast:provider/operations@0.2.0"]);
    let error = refusal(&bytes);
    assert_eq!(error, LoadError::Contract { module: "0.2.0".to_owned() });
    assert!(error.to_string().starts_with("module speaks 0.2.0, this host speaks 0.1;"), "{error}");
}

#[test]
fn a_manifest_of_another_contract_than_the_names_is_refused() {
    let text = MANIFEST.replace("contract = \"0.1\"", "contract = \"0.9\"");
    let error = refusal(&with_manifest(&component("", "(i32.const 1024)"), &text));
    assert!(matches!(error, LoadError::Disagreement(_) | LoadError::Manifest(_)), "{error}");
}

#[test]
fn an_import_off_the_list_is_refused_by_name_attack_78() {
    let cases = [
        ("wasi:sockets/tcp@0.2.0", "only way out"),
        ("wasi:http/outgoing-handler@0.2.0", "only way out"),
        ("evil:host/escape", "are linked"),
        ("wasi:clocks/timezone@0.2.0", "are linked"),
        ("wasi:cli/environment@0.3.0", "version 0.2 only"),
        ("holdfast:provider/secrets@0.1.0", "no such import"),
    ];
    for (import, rule) in cases {
        let error = refusal(&with_manifest(&outline(&[import], &[OPERATIONS]), MANIFEST));
        assert!(matches!(&error, LoadError::Import { name, .. } if name == import), "{import}: {error}");
        assert!(error.to_string().contains(rule), "{import}: {error}");
    }
}

#[test]
fn an_export_that_is_not_of_the_contract_is_refused() {
    for export in ["evil:host/backdoor", "wasi:cli/run@0.2.0", "holdfast:provider/types@0.1.0"] {
        let error = refusal(&with_manifest(&outline(&[], &[OPERATIONS, export]), MANIFEST));
        assert_eq!(error, LoadError::Export { name: export.to_owned() });
    }
}

#[test]
fn what_this_version_does_not_serve_is_refused_and_named_l11() {
    let later = outline(&[], &[OPERATIONS, "holdfast:provider/cluster-model@0.1.0"]);
    let error = refusal(&with_manifest(&later, MANIFEST));
    assert_eq!(error, LoadError::NotYetServed { what: "the interface `cluster-model`".to_owned() });
}

#[test]
fn exports_and_registered_operations_agree_both_ways_l11() {
    let allocates = outline(&[], &[OPERATIONS, "holdfast:provider/capacity@0.1.0"]);
    let operates = outline(&[], &[OPERATIONS]);
    let half = capacity_manifest().replace("HostRelease = { mode = \"long-running\" }\n", "");
    for (component, manifest, word) in [
        (&allocates, MANIFEST, "registers neither"),
        (&operates, &capacity_manifest(), "need a module that exports `capacity`"),
    ] {
        let error = refusal(&with_manifest(component, manifest));
        assert!(matches!(&error, LoadError::Disagreement(text) if text.contains(word)), "{error}");
    }
    let error = refusal(&with_manifest(&allocates, &half));
    assert!(
        matches!(&error, LoadError::Manifest(text) if text.contains("what is made is released")),
        "{error}"
    );
    let only = outline(&[], &["holdfast:provider/capacity@0.1.0"]);
    assert_eq!(refusal(&with_manifest(&only, &capacity_manifest())), LoadError::NoContract);
}

#[test]
fn a_module_with_both_interfaces_loads_and_says_so_l11() {
    let module = load(&engine(), &capacity_guest("", "(i32.const 1024)"));
    assert!(module.has_capacity());
    assert!(!load(&engine(), &guest("", "(i32.const 1024)")).has_capacity());
}

#[test]
fn capacity_with_other_types_is_refused_before_its_first_call() {
    let names = [OPERATIONS, "holdfast:provider/capacity@0.1.0"];
    let bytes = with_manifest(&outline(&[], &names), &capacity_manifest());
    let error = engine().load(&bytes).map(|_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Types(_)), "{error}");
}

#[test]
fn a_component_that_exports_nothing_is_refused() {
    assert_eq!(refusal(&with_manifest(&outline(&[], &[]), MANIFEST)), LoadError::NoContract);
}

#[test]
fn an_interface_with_the_right_name_and_other_types_is_refused_before_its_first_call() {
    let bytes = with_manifest(&outline(&[], &[OPERATIONS]), MANIFEST);
    let error = engine().load(&bytes).map(|_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Types(_)), "{error}");
}

#[test]
fn too_many_parts_are_refused_before_compiling_attack_78() {
    let modules = "(core module)".repeat(21);
    let bytes = wat::parse_str(format!("(component {modules})")).unwrap();
    assert_eq!(refusal(&bytes), LoadError::TooMany { what: "core modules", limit: 20 });
    let imports: String = (0..65).map(|n| format!("(import \"a:b/c{n}\" (instance))")).collect();
    let bytes = wat::parse_str(format!("(component {imports})")).unwrap();
    assert_eq!(refusal(&bytes), LoadError::TooMany { what: "imports", limit: 64 });
}

#[test]
fn proposals_that_no_provider_needs_are_off_attack_92() {
    let shapes = [
        "(memory i64 1)",
        "(memory 1 1 shared)",
        "(memory 1) (memory 1)",
        "(tag)",
        "(type (struct))",
        "(func $f return_call $f)",
    ];
    let with = |shape: &str| {
        let module = wat::parse_str(format!("(module {shape})")).unwrap();
        let mut bytes = with_manifest(&outline(&[], &[OPERATIONS]), MANIFEST);
        wasm_encoder::RawSection { id: 1, data: &module }.append_to_component(&mut bytes);
        inspect(&bytes).map(|_| ())
    };
    for shape in shapes {
        assert!(matches!(with(shape), Err(LoadError::Malformed(_))), "{shape}");
    }
    assert_eq!(with("(memory 1)"), Ok(()), "and it is the proposal that is refused");
}
