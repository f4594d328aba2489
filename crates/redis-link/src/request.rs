//! Requests: what is sent, for how long a connection is waited for, and how that fails.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    Arg, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisFuture, RedisResult, Script,
    ServerErrorKind, Value,
};

use super::slots::slot_of;

/// A connection is made, checked or waited for no longer than this.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);

/// A command, or a script, which is loaded where the server lacks it. Not an enum: every
/// command under way would be as large as a script's.
pub(super) trait Request: Copy {
    async fn send<T: FromRedisValue>(self, connection: &mut impl ConnectionLike) -> RedisResult<T>;

    /// The cluster slot of the first key; any will do when this is `None`.
    fn slot(self) -> Option<u16>;

    /// The command, or the script, whatever its keys and arguments.
    fn name(&self) -> &[u8];
}

impl Request for &Cmd {
    async fn send<T: FromRedisValue>(self, connection: &mut impl ConnectionLike) -> RedisResult<T> {
        self.query_async(connection).await
    }

    fn slot(self) -> Option<u16> {
        first_key(self).map(slot_of)
    }

    fn name(&self) -> &[u8] {
        match self.args_iter().next() {
            Some(Arg::Simple(name)) => name,
            _ => &[],
        }
    }
}

/// A script in Lua: made once, kept in a `static`, and called by [`ScriptCall`].
#[derive(Debug)]
pub struct LuaScript {
    source: String,
    library: Script,
}

impl LuaScript {
    /// The script of this text.
    #[must_use]
    pub fn new(source: &str) -> Self {
        Self { source: source.to_owned(), library: Script::new(source) }
    }

    fn hash(&self) -> &str {
        self.library.get_hash()
    }
}

/// A call of a script, loaded where the server lacks it; several can travel in one pipeline
/// ([`Redis::call_all`](super::Redis::call_all)).
#[derive(Debug, Clone)]
pub struct ScriptCall {
    script: &'static LuaScript,
    keys: Vec<String>,
    args: Vec<String>,
}

impl ScriptCall {
    /// A call without keys and arguments.
    pub fn new(script: &'static LuaScript) -> Self {
        Self { script, keys: Vec::new(), args: Vec::new() }
    }

    /// With one more key.
    #[must_use]
    pub fn key(mut self, key: impl ToString) -> Self {
        self.keys.push(key.to_string());
        self
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl ToString) -> Self {
        self.args.push(arg.to_string());
        self
    }

    fn command(&self) -> Cmd {
        self.command_with("EVALSHA", self.script.hash())
    }

    fn command_with(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }
}

/// Whether the server lacks a script: it was restarted, or told to forget all scripts.
pub(super) fn is_no_script(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn is_no_permission(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}

impl Request for &ScriptCall {
    async fn send<T: FromRedisValue>(self, connection: &mut impl ConnectionLike) -> RedisResult<T> {
        let command = self.command();
        match command.query_async(connection).await {
            Err(error) if is_no_script(&error) => {
                match self.script.library.load_async(connection).await {
                    // A user who may not load scripts may perhaps send them whole.
                    Err(error) if is_no_permission(&error) => {
                        let whole = self.command_with("EVAL", &self.script.source);
                        whole.query_async(connection).await
                    }
                    Err(error) => Err(error),
                    Ok(_) => command.query_async(connection).await,
                }
            }
            answer => answer,
        }
    }

    fn slot(self) -> Option<u16> {
        self.keys.first().map(|key| slot_of(key.as_bytes()))
    }

    fn name(&self) -> &[u8] {
        self.script.hash().as_bytes()
    }
}

/// Calls in one pipeline: each is answered for itself, with an error where it failed.
impl Request for &[ScriptCall] {
    async fn send<T: FromRedisValue>(self, connection: &mut impl ConnectionLike) -> RedisResult<T> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for call in self {
            pipeline.add_command(call.command());
        }
        pipeline.query_async(connection).await
    }

    fn slot(self) -> Option<u16> {
        self.first().and_then(Request::slot)
    }

    fn name(&self) -> &[u8] {
        self.first().map_or(&[], |call| call.script.hash().as_bytes())
    }
}

/// Where the first key most often is. Of a command that has it elsewhere this names some
/// argument, and so the wrong node, which names the right one.
fn first_key(command: &Cmd) -> Option<&[u8]> {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(bytes) => bytes,
        _ => &[],
    });
    let name = words.next()?;
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    if is("EVALSHA") || is("EVAL") {
        let (_, number) = (words.next()?, words.next()?);
        return if number == b"0" { None } else { words.next() };
    }
    words.next()
}

/// A connection to a node that is about to take over a slot: it serves the slot to requests after ASKING.
pub(super) struct Asking<'a>(pub(super) &'a mut MultiplexedConnection);

impl ConnectionLike for Asking<'_> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            // In one piece: nobody else's command may come between.
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(command.clone());
            let answers = self.0.req_packed_commands(&both, 0, 2).await?;
            let nothing =
                || redis::RedisError::from((ErrorKind::Client, "ASKING was not answered"));
            answers.into_iter().next_back().ok_or_else(nothing)
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    #[test]
    fn the_slot_is_that_of_the_first_key() {
        let of = |words: &[&str]| {
            let mut command = Cmd::new();
            command.arg(words);
            (&command).slot()
        };
        let foo = Some(slot_of(b"foo"));
        assert_eq!(of(&["GET", "foo"]), foo);
        assert_eq!(of(&["eval", "return 1", "2", "foo", "bar"]), foo);
        assert_eq!(of(&["EVALSHA", "0123", "0", "foo"]), None);
        assert_eq!(of(&["PING"]), None);
        static SCRIPT: LazyLock<LuaScript> = LazyLock::new(|| LuaScript::new("return 1"));
        let call = ScriptCall::new(&SCRIPT).arg("baz");
        assert_eq!((&call).slot(), None);
        assert_eq!((&call.key("foo").key("bar")).slot(), foo);
    }
}
