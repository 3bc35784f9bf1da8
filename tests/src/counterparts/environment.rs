//! Python environments of pinned packages, in `target/counterparts/<hash>`: made once per machine and content, by one
//! process at a time. The hash covers the pins, the Python and the place, so that nothing stale is ever used.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::folders::{self, Lock, progress, short_hash};

/// Prints the version and what a virtual environment needs of the standard library.
const PROBE: &str = "import sys, importlib.util as u; print(sys.version.split()[0], sys.executable.replace(' ', '%20'), \
                     *[m for m in ('venv', 'ensurepip') if u.find_spec(m) is None])";

/// Names under which newer Pythons stand on the PATH where `python3` is older.
const NAMES: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

/// Oldest Python for which every pin exists.
const OLDEST: (u32, u32) = (3, 10);

/// The folder of a ready environment with exactly `pins` (a pip requirement file with hashes). Blocks.
pub(super) fn ensure(name: &str, pins: &str) -> Result<PathBuf> {
    ensure_in(&parent(), name, pins, "python3", OLDEST)
}

/// The same with the first Python on the PATH that is not older than `oldest`. What a package's metadata says of the
/// Python that it needs is not asked: `oldest` does.
pub(super) fn ensure_since(name: &str, pins: &str, oldest: (u32, u32)) -> Result<PathBuf> {
    let fits = NAMES.into_iter().find(|python| probe(name, python, oldest).is_ok());
    // Where none fits, the first says why.
    ensure_in(&parent(), name, pins, fits.unwrap_or(NAMES[0]), oldest)
}

fn parent() -> PathBuf {
    folders::target().join("counterparts")
}

fn ensure_in(parent: &Path, name: &str, pins: &str, python: &str, oldest: (u32, u32)) -> Result<PathBuf> {
    let python_is = probe(name, python, oldest)?;
    let hash = short_hash([pins, &python_is, &parent.to_string_lossy()].map(str::as_bytes));
    let folder = parent.join(&hash);
    let complete = folder.join("complete");
    if complete.is_file() {
        return Ok(folder);
    }
    let _lock = Lock::take(&parent.join(format!("{hash}.lock")), &format!("installing {name}"))?;
    if complete.is_file() {
        return Ok(folder);
    }
    install(&folder, name, pins, python, oldest)
        .with_context(|| format!("{name}, which the tests drive, is not installed"))?;
    fs::write(&complete, name).context("marking the environment as complete")?;
    Ok(folder)
}

fn probe(name: &str, python: &str, oldest: (u32, u32)) -> Result<String> {
    let output = match Command::new(python).args(["-c", PROBE]).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "`{python}` is not on the PATH; {name}, which the tests drive, is a Python package. Install Python {}.{} \
             or newer with its venv module (Debian: python3 python3-venv)",
            oldest.0,
            oldest.1
        ),
        other => other.with_context(|| format!("starting {python}"))?,
    };
    ensure!(output.status.success(), "`{python}` does not run: {}", tail(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    judge(name, python, &said, oldest)?;
    Ok(said)
}

/// `said` is what the probe prints: the version, the path of the interpreter, the modules that it lacks.
fn judge(name: &str, python: &str, said: &str, oldest: (u32, u32)) -> Result<()> {
    let mut words = said.split_whitespace();
    let version = words.next().unwrap_or_default();
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    ensure!(
        found >= oldest,
        "`{python}` is Python {version}; {name} needs {}.{} or newer, first on the PATH",
        oldest.0,
        oldest.1
    );
    let missing: Vec<&str> = words.skip(1).collect();
    ensure!(
        missing.is_empty(),
        "Python {version} lacks its module {}, without which {name} cannot be installed (Debian: python3-venv)",
        missing.join(" and ")
    );
    Ok(())
}

fn install(folder: &Path, name: &str, pins: &str, python: &str, oldest: (u32, u32)) -> Result<()> {
    progress(&format!("installing {name} into {} (first time only)", folder.display()));
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing a half-made {}", folder.display()));
        }
        _ => {}
    }
    let mut venv = Command::new(python);
    venv.args(["-m", "venv"]).arg(folder);
    run(venv).context("making a virtual environment (python3 -m venv)")?;

    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, pins)?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary=:all:", "--no-input"]);
    pip.args(["--disable-pip-version-check", "--progress-bar=off", "-r"]).arg(&requirements);
    if oldest != OLDEST {
        pip.arg("--ignore-requires-python");
    }
    run(pip).context("pip could not install the pinned packages: is the package index within reach, and has it wheels for this machine?")?;
    progress(&format!("{name} is installed"));
    Ok(())
}

fn run(mut command: Command) -> Result<()> {
    // A test's own Python settings must not leak into the environment.
    command.stdin(Stdio::null()).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    let output = command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    let mut said = output.stdout;
    said.extend(output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, tail(&said));
    Ok(())
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_python_is_named_and_never_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let error = ensure_in(folder.path(), "some counterpart", "", "python3-that-is-not-there", OLDEST)
            .unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("`python3-that-is-not-there` is not on the PATH"), "{said}");
        assert!(said.contains("python3-venv"), "{said}");
    }

    #[test]
    fn a_python_that_is_too_old_or_lacks_a_module_is_told_so() {
        let judged = |said| judge("kubectl", "python3", said, OLDEST).map_err(|error| error.to_string());
        assert_eq!(judged("3.13.0 /usr/bin/python3"), Ok(()));
        let old = judged("3.9.18 /usr/bin/python3").unwrap_err();
        assert!(old.contains("is Python 3.9.18") && old.contains("3.10 or newer"), "{old}");
        let bare = judged("3.11.2 /usr/bin/python3 ensurepip").unwrap_err();
        assert!(bare.contains("lacks its module ensurepip") && bare.contains("python3-venv"), "{bare}");
        let newer =
            judge("cloudalone", "python3", "3.10.13 /usr/bin/python3", (3, 11)).unwrap_err().to_string();
        assert!(newer.contains("cloudalone needs 3.11 or newer"), "{newer}");
    }

    #[test]
    fn a_pin_that_no_index_has_fails_with_pips_own_words_and_leaves_nothing_that_counts_as_ready() {
        let folder = tempfile::tempdir().unwrap();
        let hash = "0".repeat(64);
        // A file that does not exist fails in the same way without asking any index.
        let pins = format!("nothing @ file:///nowhere/nothing-1-py3-none-any.whl --hash=sha256:{hash}\n");
        let error = ensure_in(folder.path(), "nothing", &pins, "python3", OLDEST).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("nothing, which the tests drive, is not installed"), "{said}");
        assert!(said.contains("nowhere"), "{said}");
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path().join("complete"));
        assert!(
            left.into_iter().all(|complete| !complete.exists()),
            "a failed installation must be tried again"
        );
    }
}
