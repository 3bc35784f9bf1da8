//! Small private files of the state directory: written whole under another name, then moved into place.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::ServerError;

/// Reads a file; `None` if there is none.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, ServerError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(ServerError::io("can't read", path)(e)),
    }
}

/// Writes a file of mode 0600; afterwards it is either the old one or the new one, never a part.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", data_encoding::HEXLOWER.encode(&crate::metadata::random::<8>())));
    let new = path.with_file_name(name);
    let written = create(&new, bytes).and_then(|()| std::fs::rename(&new, path));
    if let Err(error) = written {
        // The half-made file is of no use to anybody.
        let _ = std::fs::remove_file(&new);
        return Err(ServerError::io("can't write", path)(error));
    }
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|f| f.sync_all()).map_err(ServerError::io("can't write", folder))
}

fn create(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
