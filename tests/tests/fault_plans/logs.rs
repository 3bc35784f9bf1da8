//! What the daemons log is read for secrets (I7), and thrown away.

use std::io;
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::world::CANARY;

static LEAKED: Mutex<Option<String>> = Mutex::new(None);

/// Watches the log from now on.
pub fn watch() {
    // One test of this process is the first one.
    let _ = tracing_subscriber::fmt().with_max_level(LevelFilter::INFO).with_writer(Reader).try_init();
}

/// The first line that held a secret.
pub fn leaked() -> Option<String> {
    LEAKED.lock().unwrap().as_ref().map(|line| format!("I7: the log says {line}"))
}

struct Reader;

impl<'a> MakeWriter<'a> for Reader {
    type Writer = Reader;

    fn make_writer(&'a self) -> Reader {
        Reader
    }
}

impl io::Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        if line.contains(CANARY) {
            LEAKED.lock().unwrap().get_or_insert_with(|| line.into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
