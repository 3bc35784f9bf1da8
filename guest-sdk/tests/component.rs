//! What comes out of a build for wasm: exports, imports and the manifest, read as the daemon reads them.

use std::path::{Path, PathBuf};
use std::process::Command;
use wasmparser::{Parser, Payload};

/// Builds the examples into the folder of all wasm modules of the tests, which waits for no outer cargo, and reads one.
fn build(example: &str) -> Vec<u8> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("wasm");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--examples", "--target", "wasm32-wasip2", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the examples do not build for wasm");
    let file: PathBuf = target.join("wasm32-wasip2/release/examples").join(format!("{example}.wasm"));
    std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[derive(Debug, Default)]
struct Component {
    imports: Vec<String>,
    exports: Vec<String>,
    manifest: Option<Vec<u8>>,
    other_sections: Vec<String>,
}

fn inspect(bytes: &[u8]) -> Component {
    let mut component = Component::default();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.expect("a valid component") {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= i32::from(depth > 0),
            Payload::ComponentImportSection(imports) if depth == 0 => {
                component
                    .imports
                    .extend(imports.into_iter().map(|import| import.unwrap().name.name.to_owned()));
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                component
                    .exports
                    .extend(exports.into_iter().map(|export| export.unwrap().name.name.to_owned()));
            }
            Payload::CustomSection(section) if section.name() == "holdfast:manifest" => {
                assert!(component.manifest.is_none(), "two manifests");
                component.manifest = Some(section.data().to_owned());
            }
            Payload::CustomSection(section) => component.other_sections.push(section.name().to_owned()),
            _ => {}
        }
    }
    component
}

/// The contract's own interfaces by short name.
fn contract(names: &[String]) -> Vec<&str> {
    let mut short: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix("holdfast:provider/"))
        .map(|name| name.split('@').next().unwrap_or(name))
        .collect();
    short.sort_unstable();
    short
}

#[test]
fn a_module_exports_what_it_was_asked_to_and_carries_its_manifest() {
    let tiny = inspect(&build("tiny"));
    assert_eq!(contract(&tiny.exports), ["operations"]);
    assert_eq!(contract(&tiny.imports), ["calls", "custody", "log", "types"], "{:?}", tiny.imports);
    assert_eq!(tiny.manifest.as_deref(), Some(include_bytes!("../examples/tiny/provider.toml").as_slice()));

    let wide = inspect(&build("wide"));
    assert_eq!(contract(&wide.exports), ["capacity", "operations"]);
    assert_eq!(contract(&wide.imports), ["calls", "clock", "custody", "log", "types"], "{:?}", wide.imports);
    assert_eq!(wide.manifest.as_deref(), Some(include_bytes!("../examples/wide/provider.toml").as_slice()));

    for component in [tiny, wide] {
        let foreign: Vec<&String> = component
            .imports
            .iter()
            .filter(|name| !name.starts_with("holdfast:provider/") && !name.starts_with("wasi:"))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        let network = component.imports.iter().any(|name| name.contains("sockets") || name.contains("http"));
        assert!(!network, "a provider has no network: {:?}", component.imports);
        assert!(!component.other_sections.iter().any(|name| name.starts_with("component-type")));
    }
}
