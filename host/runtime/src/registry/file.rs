//! Opens and reads one file of the providers folder, so that the bytes that are checked are the bytes that run
//! (attack 75): no links, no pipes, nobody else's file, one read under a cap.

use crate::limits;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, lstat, open};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What tells one content of a path from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    mode: u32,
    owner: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of the path itself, not of what a link points to.
    pub(super) fn of(path: &Path) -> Option<Stamp> {
        lstat(path).ok().map(|stat| Stamp::from(&stat))
    }

    fn from(stat: &Stat) -> Stamp {
        // Widths differ between targets; none of these values is ever calculated with.
        Stamp {
            device: stat.st_dev as _,
            inode: stat.st_ino as _,
            size: stat.st_size as _,
            mode: stat.st_mode as _,
            owner: stat.st_uid as _,
            modified: (stat.st_mtime as _, stat.st_mtime_nsec as _),
            changed: (stat.st_ctime as _, stat.st_ctime_nsec as _),
        }
    }
}

/// Why a file was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileError {
    #[error("it is a symbolic link; copy the file itself into the folder (attack 75)")]
    Link,
    #[error("it is {0}, not a regular file (attack 75)")]
    NotRegular(&'static str),
    #[error(
        "it belongs to user {owner}; a module must belong to the daemon's user ({daemon}) or root: chown it"
    )]
    Owner { owner: u32, daemon: u32 },
    #[error("{what} can be written by others (mode {mode:03o}); chmod go-w")]
    Writable { what: &'static str, mode: u32 },
    #[error("it has {size} bytes and a module may have {limit}")]
    TooLarge { size: u64, limit: usize },
    #[error("it changed while it was read and is read again; write elsewhere and rename into the folder")]
    Changed,
    #[error("it is gone")]
    Gone,
    #[error("it cannot be read: {0}")]
    Io(String),
}

/// A file that was opened and found fit. What happens to its path from here on does not matter.
#[derive(Debug)]
pub(super) struct Opened {
    file: File,
    pub(super) stamp: Stamp,
}

impl Opened {
    pub(super) fn open(path: &Path) -> Result<Opened, FileError> {
        // NONBLOCK: opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let descriptor = open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP => FileError::Link,
            Errno::NOENT => FileError::Gone,
            Errno::NXIO | Errno::NODEV => FileError::NotRegular("a device or socket"),
            error => FileError::Io(error.to_string()),
        })?;
        let stat = fstat(&descriptor).map_err(io)?;
        regular(&stat)?;
        trusted("it", &stat)?;
        Ok(Opened { file: descriptor.into(), stamp: Stamp::from(&stat) })
    }

    /// The whole content, read once.
    pub(super) fn read(&mut self) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        let cap = limits::MODULE_BYTES as u64 + 1;
        (&mut self.file)
            .take(cap)
            .read_to_end(&mut bytes)
            .map_err(|error| FileError::Io(error.kind().to_string()))?;
        let stat = fstat(&self.file).map_err(io)?;
        if bytes.len() > limits::MODULE_BYTES {
            return Err(FileError::TooLarge { size: stat.st_size as u64, limit: limits::MODULE_BYTES });
        }
        let now = Stamp::from(&stat);
        // A rename over the path changes only the old file's link count and change time: its bytes are still one file's.
        if (now.size, now.modified) != (self.stamp.size, self.stamp.modified) {
            return Err(FileError::Changed);
        }
        Ok(bytes)
    }
}

/// Who may write to the folder may choose what runs; so the folder is held to the same rule as its files.
pub(super) fn check_folder(path: &Path) -> Result<(), FileError> {
    let stat = rustix::fs::stat(path).map_err(io)?;
    trusted("the providers folder", &stat)
}

fn regular(stat: &Stat) -> Result<(), FileError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::NotRegular("a folder")),
        FileType::Fifo => Err(FileError::NotRegular("a pipe")),
        FileType::Socket => Err(FileError::NotRegular("a socket")),
        FileType::Symlink => Err(FileError::Link),
        _ => Err(FileError::NotRegular("a device")),
    }
}

fn trusted(what: &'static str, stat: &Stat) -> Result<(), FileError> {
    let daemon = rustix::process::geteuid().as_raw();
    let owner = stat.st_uid;
    if owner != daemon && owner != 0 {
        return Err(FileError::Owner { owner, daemon });
    }
    let mode = stat.st_mode & 0o777;
    if mode & 0o022 != 0 {
        return Err(FileError::Writable { what, mode });
    }
    Ok(())
}

fn io(error: Errno) -> FileError {
    FileError::Io(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    #[test]
    fn a_symbolic_link_is_refused_attack_75() {
        let folder = folder();
        let target = file(&folder, "a.wasm", b"x");
        let link = folder.path().join("b.wasm");
        std::os::unix::fs::symlink(target, &link).unwrap();
        assert_eq!(Opened::open(&link).unwrap_err(), FileError::Link);
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_a_writer_attack_75() {
        let folder = folder();
        let pipe = folder.path().join("p.wasm");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(Opened::open(&pipe).unwrap_err(), FileError::NotRegular("a pipe"));
    }

    #[test]
    fn a_folder_is_refused() {
        let folder = folder();
        let inner = folder.path().join("d.wasm");
        std::fs::create_dir(&inner).unwrap();
        assert_eq!(Opened::open(&inner).unwrap_err(), FileError::NotRegular("a folder"));
    }

    #[test]
    fn a_file_that_its_group_or_others_can_write_is_refused() {
        let folder = folder();
        let path = file(&folder, "a.wasm", b"x");
        for mode in [0o664, 0o646] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Opened::open(&path).unwrap_err(), FileError::Writable { what: "it", mode });
        }
    }

    #[test]
    fn a_path_swapped_after_opening_does_not_change_what_is_read_attack_75() {
        let folder = folder();
        let path = file(&folder, "a.wasm", b"the checked one");
        let mut opened = Opened::open(&path).unwrap();
        let evil = file(&folder, "evil", b"another");
        std::fs::rename(evil, &path).unwrap();
        assert_eq!(opened.read().unwrap(), b"the checked one");
        assert_ne!(Stamp::of(&path), Some(opened.stamp), "and the next look sees that the path changed");
    }

    #[test]
    fn a_file_written_while_it_is_read_is_refused_and_read_again() {
        let folder = folder();
        let path = file(&folder, "a.wasm", b"half");
        let mut opened = Opened::open(&path).unwrap();
        std::fs::write(&path, b"half and the rest").unwrap();
        assert_eq!(opened.read().unwrap_err(), FileError::Changed);
    }
}
