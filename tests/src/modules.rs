//! The wasm modules that tests load: the shipped providers, and the hostile guests of `tests/hostile`.
//! One nested build makes them all, in a target folder of its own (`target/wasm`); while nothing that goes into them
//! changes it is not run again, and several test processes wait for one build.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::folders::{self, Lock, progress, short_hash};

const TARGET: &str = "wasm32-wasip2";

/// The shipped providers: the name a test uses, the package.
const PROVIDERS: [(&str, &str); 4] = [
    ("simulated", "holdfast-provider-simulated"),
    ("redfish", "holdfast-provider-redfish"),
    ("hcloud", "holdfast-provider-hcloud"),
    ("ec2", "holdfast-provider-ec2"),
];

/// What goes into the modules, relative to the checkout.
const SOURCES: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "wit",
    "guest-sdk",
    "host/manifest",
    "providers/simulated",
    "providers/redfish",
    "providers/hcloud",
    "providers/ec2",
    "tests/hostile",
];

/// Small modules, as they are shipped; given on the command line, so that both workspaces build alike.
const PROFILE: [&str; 3] =
    ["profile.release.opt-level=\"s\"", "profile.release.strip=true", "profile.release.lto=true"];

/// One more than the builds that may be in vain: the last round only finds what the one before it has made.
const BUILDS_WHILE_SOURCES_CHANGE: usize = 4;

/// All modules, built.
#[derive(Clone, Debug)]
pub struct Modules {
    folder: PathBuf,
    names: Vec<String>,
}

impl Modules {
    /// A shipped provider: `simulated`, `redfish`, `hcloud` or `ec2`.
    pub fn provider(&self, name: &str) -> Result<PathBuf> {
        ensure!(PROVIDERS.iter().any(|(known, _)| *known == name), "no provider `{name}` is shipped");
        self.module(name)
    }

    /// A hostile guest, by its folder in `tests/hostile`.
    pub fn hostile(&self, name: &str) -> Result<PathBuf> {
        self.module(&format!("hostile-{name}"))
    }

    /// The names of the hostile guests.
    pub fn hostile_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_prefix("hostile-"))
    }

    fn module(&self, name: &str) -> Result<PathBuf> {
        ensure!(
            self.names.iter().any(|known| known == name),
            "no module `{name}` was built; there are {}",
            self.names.join(", ")
        );
        Ok(self.folder.join(format!("{name}.wasm")))
    }
}

/// Builds what is not built yet; blocks, minutes the first time. Every test process may call it.
pub fn build() -> Result<Modules> {
    let (checkout, parent) = (folders::checkout(), folders::target().join("wasm"));
    if let Some(modules) = ready(&parent.join("modules").join(hash_of_sources(&checkout)?))? {
        return Ok(modules);
    }
    let _lock = Lock::take(&parent.join("modules.lock"), "building the test modules")?;
    // Somebody who edits during the build must not get the older modules under the newer hash, or the reverse.
    for _ in 0..BUILDS_WHILE_SOURCES_CHANGE {
        let hash = hash_of_sources(&checkout)?;
        let folder = parent.join("modules").join(&hash);
        if let Some(modules) = ready(&folder)? {
            return Ok(modules);
        }
        let built = build_all(&checkout, &parent)?;
        if hash_of_sources(&checkout)? == hash {
            publish(&folder, &built)?;
        }
    }
    bail!("the sources of the test modules keep changing while they are built")
}

/// Replaces a text by another of the same length, wherever it stands in a module: its manifest is there twice.
pub fn edited(module: &mut [u8], from: &str, to: &str) -> Result<()> {
    ensure!(from.len() == to.len(), "only texts of one length can be exchanged");
    let at: Vec<usize> = (0..module.len()).filter(|at| module[*at..].starts_with(from.as_bytes())).collect();
    ensure!(!at.is_empty(), "`{from}` does not stand in the module");
    at.into_iter().for_each(|at| module[at..at + to.len()].copy_from_slice(to.as_bytes()));
    Ok(())
}

fn build_all(checkout: &Path, target: &Path) -> Result<BTreeMap<String, PathBuf>> {
    install_target()?;
    progress("building the test modules for wasm32-wasip2 (again only when their sources change)");
    let mut built = BTreeMap::new();
    built.extend(build_providers(checkout, target)?);
    built.extend(build_hostile(checkout, target)?);
    progress("the test modules are built");
    Ok(built)
}

/// The modules of a folder that is complete: its list is written last.
fn ready(folder: &Path) -> Result<Option<Modules>> {
    match fs::read_to_string(folder.join("complete")) {
        Ok(list) => {
            Ok(Some(Modules { folder: folder.to_owned(), names: list.lines().map(str::to_owned).collect() }))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", folder.display())),
    }
}

fn publish(folder: &Path, built: &BTreeMap<String, PathBuf>) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, artefact) in built {
        let to = folder.join(format!("{name}.wasm"));
        fs::copy(artefact, &to).with_context(|| format!("copying {}", artefact.display()))?;
    }
    let list: String = built.keys().map(|name| format!("{name}\n")).collect();
    fs::write(folder.join("complete"), list).context("marking the modules as complete")
}

fn build_providers(checkout: &Path, target: &Path) -> Result<Vec<(String, PathBuf)>> {
    let packages = PROVIDERS.iter().flat_map(|(_, package)| ["--package", package]);
    let artefacts = cargo_build(&checkout.join("Cargo.toml"), target, packages)?;
    let find = |(name, package): &(&str, &str)| {
        let artefact = artefacts.get(*package).with_context(|| format!("`{package}` has built no module"))?;
        Ok((name.to_string(), artefact.clone()))
    };
    PROVIDERS.iter().map(find).collect()
}

/// Every package of the workspace `tests/hostile`, each named as its folder; none if there is no such workspace.
fn build_hostile(checkout: &Path, target: &Path) -> Result<Vec<(String, PathBuf)>> {
    let manifest = checkout.join("tests/hostile/Cargo.toml");
    if !manifest.is_file() {
        return Ok(Vec::new());
    }
    let artefacts = cargo_build(&manifest, target, ["--workspace"])?;
    Ok(artefacts
        .into_iter()
        .map(|(package, artefact)| (format!("hostile-{}", bare(&package)), artefact))
        .collect())
}

/// Hostile packages may carry a prefix, so that their names say what they are in build output too.
fn bare(package: &str) -> &str {
    let package = package.strip_prefix("holdfast-").unwrap_or(package);
    package.strip_prefix("hostile-").unwrap_or(package)
}

/// Builds; the module of each package that made one.
fn cargo_build<'a>(
    manifest: &Path,
    target: &Path,
    what: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "build",
        "--release",
        "--lib",
        "--target",
        TARGET,
        "--message-format",
        "json-render-diagnostics",
    ]);
    command.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target).args(what);
    for setting in PROFILE {
        command.args(["--config", setting]);
    }
    forget_the_outer_build(&mut command);
    // Its progress and its errors go past the harness; its messages come to us.
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("starting cargo")?;
    ensure!(
        output.status.success(),
        "the test modules of {} do not build; cargo says why above",
        manifest.display()
    );
    let mut artefacts = BTreeMap::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line).context("reading what cargo built")?;
        if let Some((package, artefact)) = module_of(&message)? {
            artefacts.insert(package, artefact);
        }
    }
    Ok(artefacts)
}

/// The package and the file, if the message is about a module.
fn module_of(message: &Value) -> Result<Option<(String, PathBuf)>> {
    let target = &message["target"];
    let is_cdylib = target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"));
    if message["reason"] != "compiler-artifact" || !is_cdylib {
        return Ok(None);
    }
    let manifest =
        Path::new(message["manifest_path"].as_str().context("a built package without a manifest")?);
    let text = fs::read_to_string(manifest).with_context(|| format!("reading {}", manifest.display()))?;
    let package = package_name(&text).with_context(|| format!("{} names no package", manifest.display()))?;
    let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(files.into_iter().find(|file| file.ends_with(".wasm")).map(|file| (package, file.into())))
}

/// The first `name = "…"` of a manifest is its package's.
fn package_name(manifest: &str) -> Option<String> {
    let line = manifest.lines().find(|line| line.trim_start().starts_with("name"))?;
    line.split('"').nth(1).map(str::to_owned)
}

/// What `cargo test` sets for its children would change what is built here.
fn forget_the_outer_build(command: &mut Command) {
    const KEPT: [&str; 6] =
        ["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_", "CARGO_TERM_"];
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let of_cargo = name.starts_with("CARGO") && !KEPT.iter().any(|kept| name.starts_with(kept));
        if of_cargo
            || ["RUSTFLAGS", "RUSTDOCFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"].contains(&name)
        {
            command.env_remove(name);
        }
    }
}

/// The standard library of the target, which rustup adds to the pinned toolchain.
fn install_target() -> Result<()> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(folders::checkout()).output();
    let output = output.context("`rustc` does not start; install rustup")?;
    ensure!(
        output.status.success(),
        "`rustc --print sysroot`: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if sysroot.join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    progress(&format!("adding the target {TARGET} to the toolchain"));
    let added =
        Command::new("rustup").args(["target", "add", TARGET]).current_dir(folders::checkout()).output();
    match added {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => bail!(
            "`rustup target add {TARGET}` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or("it says nothing")
        ),
        Err(error) => {
            bail!("the toolchain lacks the target {TARGET}, and `rustup` does not start ({error}): add it")
        }
    }
}

fn hash_of_sources(checkout: &Path) -> Result<String> {
    let version = Command::new("rustc")
        .arg("-vV")
        .current_dir(checkout)
        .output()
        .context("asking rustc its version")?;
    let mut parts = vec![version.stdout];
    parts.extend(PROFILE.map(|setting| setting.as_bytes().to_vec()));
    for source in SOURCES {
        add(checkout, &checkout.join(source), &mut parts)?;
    }
    Ok(short_hash(parts.iter().map(Vec::as_slice)))
}

/// The names and the content of all files below, in an order of their own; a path that is not there adds nothing.
fn add(checkout: &Path, path: &Path, parts: &mut Vec<Vec<u8>>) -> Result<()> {
    if path.is_dir() {
        let mut below = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        below.sort();
        // A build folder is no source.
        below.retain(|path| !path.ends_with("target"));
        return below.iter().try_for_each(|path| add(checkout, path, parts));
    }
    if path.is_file() {
        let name = path.strip_prefix(checkout).unwrap_or(path);
        parts.push(name.to_string_lossy().into_owned().into_bytes());
        parts.push(fs::read(path).with_context(|| format!("reading {}", path.display()))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_changes_with_a_sources_content_and_name_and_not_with_a_build_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let hash = || {
            let mut parts = Vec::new();
            add(folder.path(), folder.path(), &mut parts).unwrap();
            short_hash(parts.iter().map(Vec::as_slice))
        };
        file("wit/types.wit", "one");
        let first = hash();
        file("target/built", "anything");
        assert_eq!(hash(), first);
        file("wit/types.wit", "two");
        let second = hash();
        assert_ne!(second, first);
        fs::rename(folder.path().join("wit/types.wit"), folder.path().join("wit/other.wit")).unwrap();
        assert_ne!(hash(), second);
    }

    #[test]
    fn hostile_modules_are_called_by_what_they_do() {
        for package in ["endless-loop", "hostile-endless-loop", "holdfast-hostile-endless-loop"] {
            assert_eq!(bare(package), "endless-loop");
        }
    }

    #[test]
    fn a_module_that_was_not_built_is_an_error_that_lists_those_that_were() {
        let modules =
            Modules { folder: PathBuf::from("/nowhere"), names: vec!["redfish".into(), "hostile-a".into()] };
        assert!(modules.provider("redfish").unwrap().ends_with("redfish.wasm"));
        assert_eq!(modules.hostile_names().collect::<Vec<_>>(), ["a"]);
        let said = modules.hostile("b").unwrap_err().to_string();
        assert!(said.contains("hostile-b") && said.contains("redfish, hostile-a"), "{said}");
    }
}
