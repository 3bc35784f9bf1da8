//! A third-party server as a process: it tells its port in its log, and ends when its value is dropped.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// A slow machine under load imports a thousand Python files in this time.
pub(super) const READY: Duration = Duration::from_secs(120);
/// Lines of its log kept for error messages.
const KEPT_LINES: usize = 40;

pub(super) struct Server {
    name: &'static str,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    pub port: u16,
}

impl Server {
    /// Starts it with standard input open (closed, it ends) and waits until its log says `announces` and a port.
    pub async fn start(name: &'static str, mut command: Command, announces: &'static str) -> Result<Server> {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PYTHONUNBUFFERED", "1");
        let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
        let stderr = child.stderr.take().context("its standard error")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let (announce, announced) = mpsc::channel();
        let kept = log.clone();
        std::thread::spawn(move || follow(BufReader::new(stderr), announces, &kept, &announce));
        // From here on dropped is killed.
        let mut server = Server { name, child, log, port: 0 };
        match tokio::task::spawn_blocking(move || announced.recv_timeout(READY)).await? {
            Ok(port) => server.port = port,
            Err(_) => bail!("{name} did not start listening; it said:\n{}", server.log()),
        }
        Ok(server)
    }

    /// Asks until `answers` says yes; an error is asked again, for two minutes.
    pub async fn until<F: Future<Output = Result<bool>>>(&self, answers: impl Fn() -> F) -> Result<()> {
        let deadline = Instant::now() + READY;
        loop {
            match answers().await {
                Ok(true) => return Ok(()),
                Ok(false) if Instant::now() > deadline => {
                    bail!("{} does not answer as it should:\n{}", self.name, self.log())
                }
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context(format!("{} does not answer:\n{}", self.name, self.log())));
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().with_context(|| format!("killing {}", self.name))?;
        self.child.wait().with_context(|| format!("waiting for the end of {}", self.name))?;
        Ok(())
    }

    /// The last lines that it logged.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Too late to tell anyone; it also ends by itself when its standard input closes.
        let _ = self.kill();
    }
}

/// Keeps the last lines and announces the port once it listens.
fn follow(lines: impl BufRead, announces: &str, kept: &Mutex<Vec<String>>, announce: &mpsc::Sender<u16>) {
    for line in lines.lines().map_while(Result::ok) {
        let port = line.split_once(announces).map(|(_, rest)| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            rest[..digits].parse()
        });
        if let Some(Ok(port)) = port {
            // Later lines of this kind find nobody waiting.
            let _ = announce.send(port);
        }
        let mut kept = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if kept.len() == KEPT_LINES {
            kept.remove(0);
        }
        kept.push(line);
    }
}
