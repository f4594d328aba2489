//! What is Redis's own: its arguments, its URL, its answer to PING.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use nix::sys::signal::Signal;

use super::process::{Health, Hooks, ServerProcess, Site};
use crate::{Server, StoresError};

/// What makes a server a Redis.
const HOOKS: Hooks = Hooks {
    name: "redis",
    socket,
    health,
    before_start: |_, _, _| Ok(()),
    after_stop: |_| (),
    stop: &[(Duration::ZERO, Signal::SIGTERM), (Duration::from_secs(5), Signal::SIGKILL)],
    orphaned: Signal::SIGKILL,
};

/// The socket in the sockets' directory.
pub(super) fn socket(sockets: &Path) -> PathBuf {
    sockets.join("redis.sock")
}

/// The URL, as the `redis` crate reads it.
pub(super) fn url(sockets: &Path) -> Result<String, StoresError> {
    let socket = socket(sockets);
    let as_file = url::Url::from_file_path(&socket).map_err(|()| {
        StoresError::Directory(format!("{} is not an absolute path", socket.display()))
    })?;
    Ok(format!("redis+unix://{}", as_file.path()))
}

/// Prepares the server. A throw-away Redis writes nothing to disk, so that a
/// restart brings it back empty, as a lost Redis would come back.
pub(super) fn prepare(binary: &Path, site: &Site<'_>) -> Result<ServerProcess, StoresError> {
    let data = site.directory.join("redis");
    site.account.private_directory(&data)?;
    let mut command = Command::new(binary);
    command.current_dir("/").args(["--port", "0", "--daemonize", "no", "--save", ""]);
    command.arg("--unixsocket").arg(socket(site.sockets)).args(["--unixsocketperm", "700"]);
    command.arg("--dir").arg(&data);
    if site.kept {
        let fsync = if site.durable { "everysec" } else { "no" };
        command.args(["--appendonly", "yes", "--appendfsync", fsync]);
    } else {
        command.args(["--appendonly", "no"]);
    }
    Ok(ServerProcess::prepare(Server::Redis, &HOOKS, command, site))
}

/// Whether the server answers PING.
pub(super) fn health(socket: &Path) -> Health {
    let ask = || -> std::io::Result<[u8; 5]> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    match ask().as_ref() {
        Ok(b"+PONG") => Health::Ready,
        Ok(b"-LOAD") => Health::Starting,
        _ => Health::Silent,
    }
}
