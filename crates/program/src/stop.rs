//! The wish that a command that goes on for ever come to an end.

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

/// Resolves at the first interrupt or request to end, and where `with_stdin` says so at the
/// end of standard input; a second signal ends the process at once.
///
/// # Errors
/// When signals cannot be listened for.
pub fn requested(with_stdin: bool) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = end_of_stdin(), if with_stdin => {}
        }
        let _ = stop.send(());
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(crate::INTERRUPTED.into());
    });
    Ok(async move {
        let _ = stopped.await;
    })
}

async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 256];
    while matches!(stdin.read(&mut ignored).await, Ok(read) if read > 0) {}
}
