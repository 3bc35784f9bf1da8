//! The caller: one connection and one runtime for each thread.

use crate::message::{POLL, PollReply, request};
use hyper_util::rt::TokioIo;
use std::io::{BufRead, Error, Write};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// Calls that a connection makes before it is measured.
const WARM: usize = 100;

type Failure = Box<dyn std::error::Error + Send + Sync>;

pub fn run(socket: &str) -> Result<(), Box<dyn std::error::Error>> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (milliseconds, threads) = line.split_once(' ').ok_or("MILLISECONDS THREADS")?;
        let length = Duration::from_millis(milliseconds.parse()?);
        let begun = Instant::now();
        let nanos = on_threads(threads.parse()?, socket, length).map_err(|error| error.to_string())?;
        let answer = serde_json::json!({ "seconds": begun.elapsed().as_secs_f64(), "nanos": nanos });
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// How long each call took, per thread.
fn on_threads(count: usize, socket: &str, length: Duration) -> Result<Vec<Vec<u64>>, Failure> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(|| calls(socket, length))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a caller panicked")?).collect()
    })
}

fn calls(socket: &str, length: Duration) -> Result<Vec<u64>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = Grpc::new(connect(socket).await?);
        for _ in 0..WARM {
            poll(&mut client).await?;
        }
        let (mut nanos, begun) = (Vec::with_capacity(1 << 16), Instant::now());
        while begun.elapsed() < length {
            let one = Instant::now();
            poll(&mut client).await?;
            nanos.push(one.elapsed().as_nanos() as u64);
        }
        Ok(nanos)
    })
}

async fn connect(socket: &str) -> Result<Channel, Failure> {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { Ok::<_, Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    Ok(Endpoint::from_static("http://peer").connect_with_connector(connector).await?)
}

async fn poll(client: &mut Grpc<Channel>) -> Result<(), Failure> {
    client.ready().await?;
    let path = http::uri::PathAndQuery::from_static(POLL);
    let codec = ProstCodec::default();
    let reply: PollReply = client.unary(tonic::Request::new(request()), path, codec).await?.into_inner();
    if reply.state != 1 { Err("the poll did not succeed".into()) } else { Ok(()) }
}
