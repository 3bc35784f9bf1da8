//! Serves the embedded API on a state directory (the first argument, else a temporary one) and prints the path
//! of the kubeconfig. Ends at the end of its input.

use std::io::Read as _;

use holdfast_apiserver::{ApiServer, Options};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let directory = std::env::args_os().nth(1).map_or(scratch.path().to_owned(), Into::into);
    let server = ApiServer::open(&directory, Options::default()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let path = server.default_kubeconfig();
    server.write_kubeconfig(&path, listener.local_addr()?)?;
    println!("{}", path.display());
    let serving = server.clone();
    let serving = tokio::spawn(async move { serving.serve(listener).await });
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    server.shutdown().await;
    serving.await?;
    Ok(())
}
