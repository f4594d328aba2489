//! Plays a case: one statement at a time, each until it is answered or seen to wait.

use std::pin::pin;

use tokio::time::sleep;

use super::books::{IsolationBooks, make_tables};
use super::case::IsolationCase;
use super::connection::{SqlAnswer, SqlConnection, SqlRefusal};
use super::deadlock_report::deadlock_report;
use super::lock_waits::LockWaits;
use super::server::{DatabaseKind, IsolationLevel, IsolationServer};
use super::sql_session::SqlSession;
use crate::TimelineLine;

const DEADLOCKS: [&str; 2] = ["40P01", "1213"];

/// What came of a case.
#[derive(Debug)]
pub(super) struct PlayedCase {
    pub(super) books: IsolationBooks,
    pub(super) deadlock: bool,
    pub(super) endless: bool,
}

/// Plays a case, and fills the timeline and the errors as it goes, so that they are there when it fails.
pub(super) struct CasePlayer<'a> {
    case: &'static IsolationCase,
    observer: SqlConnection,
    sessions: Vec<SqlSession>,
    timeline: &'a mut Vec<TimelineLine>,
    errors: &'a mut Vec<String>,
    endless: bool,
}

impl<'a> CasePlayer<'a> {
    /// Makes the tables, and connects the sessions.
    pub(super) async fn new(
        server: &IsolationServer,
        case: &'static IsolationCase,
        level: IsolationLevel,
        timeline: &'a mut Vec<TimelineLine>,
        errors: &'a mut Vec<String>,
    ) -> anyhow::Result<Self> {
        let database = server.make_database().await?;
        let mut observer = server.connect(Some(&database)).await?;
        make_tables(&mut observer, case).await?;
        let mut sessions = Vec::new();
        for (nth, script) in case.sessions.iter().enumerate() {
            let mut connection = server.connect(Some(&database)).await?;
            prepare(&mut connection, case, level, nth + 1 == case.sessions.len()).await?;
            let id = connection.id().await?;
            sessions.push(SqlSession::new(nth, script, server.kind(), id, connection));
        }
        if let (DatabaseKind::MariaDb, Some(setting)) = (server.kind(), &case.mariadb_setting) {
            timeline.push(TimelineLine::of_the_lab(setting.as_str()));
        }
        Ok(Self { case, observer, sessions, timeline, errors, endless: false })
    }

    /// Plays it to its end.
    pub(super) async fn play(mut self) -> anyhow::Result<PlayedCase> {
        let turns = self.case.turns.bytes().map(|turn| usize::from(turn - b'1'));
        for session in turns {
            self.take_turn(session).await?;
        }
        while self.sessions.iter_mut().any(|session| !session.is_done()) {
            for session in 0..self.sessions.len() {
                self.take_turn(session).await?;
            }
        }
        let books = IsolationBooks::read(&mut self.observer, self.case.stock).await?;
        self.timeline.push(TimelineLine::of_the_lab(books.told()));
        for session in self.sessions {
            session.close().await;
        }
        self.observer.close().await;
        let deadlock = self.errors.iter().any(|code| DEADLOCKS.contains(&code.as_str()));
        Ok(PlayedCase { books, deadlock, endless: self.endless })
    }

    /// The session sends its next statement, unless it waits. Then everybody who can goes on.
    async fn take_turn(&mut self, speaker: usize) -> anyhow::Result<()> {
        if self.sessions[speaker].is_busy() || self.sessions[speaker].is_done() {
            return Ok(());
        }
        self.sessions[speaker].send();
        let others = (0..self.sessions.len()).filter(|other| *other != speaker);
        let order: Vec<usize> = std::iter::once(speaker).chain(others).collect();
        // An answer may be what another waits for. The speaker is heard first: it is the cause.
        loop {
            let mut answered = Vec::new();
            for session in &order {
                if self.sessions[*session].is_busy()
                    && let Some(answer) = self.answer(*session).await?
                {
                    answered.push((*session, answer));
                }
            }
            if answered.is_empty() {
                return Ok(());
            }
            for (session, answer) in answered {
                self.hear(session, answer).await?;
            }
        }
    }

    /// What a session is answered; `None` when it is seen to wait.
    async fn answer(
        &mut self,
        session: usize,
    ) -> anyhow::Result<Option<Result<SqlAnswer, SqlRefusal>>> {
        let ids: Vec<i64> = self.sessions.iter().map(|session| session.id).collect();
        let times_out = self.sessions[session].times_out();
        loop {
            {
                let pause = LockWaits::pause(&self.observer);
                let answered = pin!(self.sessions[session].answer());
                tokio::select! {
                    biased;
                    answered = answered => return answered.map(Some),
                    () = sleep(pause) => {}
                }
            }
            if times_out {
                continue;
            }
            let waits = LockWaits::look(&mut self.observer, &ids).await?;
            let blockers = waits.blockers(ids[session]);
            if blockers.is_empty() {
                continue;
            }
            let waiter = &mut self.sessions[session];
            if !waiter.told_waiting {
                waiter.told_waiting = true;
                let (name, sent) = (waiter.name.clone(), waiter.sent.clone());
                let by = self.sessions.iter().filter(|session| blockers.contains(&session.id));
                let by: Vec<&str> = by.map(|session| session.name.as_str()).collect();
                let text = format!("{sent}: waits for {}", by.join(" and "));
                self.timeline.push(TimelineLine::of(&name, text));
            }
            return Ok(None);
        }
    }

    async fn hear(
        &mut self,
        nth: usize,
        answered: Result<SqlAnswer, SqlRefusal>,
    ) -> anyhow::Result<()> {
        let session = &mut self.sessions[nth];
        let told = match &answered {
            Ok(answer) => told(&session.sent, answer),
            Err(refusal) => Some(told_refusal(refusal)),
        };
        let text = match (session.told_waiting, told) {
            (true, told) => format!("goes on: {}", told.as_deref().unwrap_or("done")),
            (false, Some(told)) => format!("{}: {told}", session.sent),
            (false, None) => session.sent.clone(),
        };
        self.timeline.push(TimelineLine::of(&session.name, text));
        session.proceed(&answered);
        if session.endless && !self.endless {
            self.endless = true;
            let text = "would go on like this for ever";
            self.timeline.push(TimelineLine::of(&session.name, text));
        }
        let Err(refusal) = answered else { return Ok(()) };
        if self.case.report_deadlock && DEADLOCKS.contains(&refusal.code.as_str()) {
            let names: Vec<(i64, String)> =
                self.sessions.iter().map(|session| (session.id, session.name.clone())).collect();
            let report = deadlock_report(&mut self.observer, &refusal, &names).await?;
            self.timeline.extend(report.into_iter().map(TimelineLine::of_the_lab));
        }
        if !self.errors.contains(&refusal.code) {
            self.errors.push(refusal.code);
        }
        Ok(())
    }
}

/// Sets the level, and what else a session needs.
async fn prepare(
    connection: &mut SqlConnection,
    case: &IsolationCase,
    level: IsolationLevel,
    is_last: bool,
) -> anyhow::Result<()> {
    let level = level.sql();
    match connection {
        SqlConnection::Postgres(_) => {
            let set = format!("set session characteristics as transaction isolation level {level}");
            connection.must(&set).await?;
            // PostgreSQL ends the session that finds the deadlock, which is the first to look. So that it is the
            // same one each time, only the last session looks. Only a superuser may set this: elsewhere another
            // session may be ended than the claims say, and the run tells that.
            let patience = if is_last { "10ms" } else { "1h" };
            let _ = connection.ask(&format!("set deadlock_timeout = '{patience}'")).await;
        }
        SqlConnection::MariaDb(_) => {
            connection.must(&format!("set session transaction isolation level {level}")).await?;
            // Newer releases have it on. One that does not know it does as with off.
            let _ = connection.ask("set session innodb_snapshot_isolation = off").await;
            if let Some(setting) = &case.mariadb_setting {
                connection.must(&format!("set session {setting}")).await?;
            }
        }
    }
    Ok(())
}

/// An answer in a few words; `None` where there is nothing to say of it.
fn told(sql: &str, answer: &SqlAnswer) -> Option<String> {
    let first = sql.split(' ').next().unwrap_or_default();
    match first {
        "select" => Some(match answer.rows.first().map(Vec::as_slice) {
            None => "no row".to_owned(),
            // A function without a value.
            Some([Some(value)]) if value.is_empty() => "done".to_owned(),
            Some(_) => answer.value().unwrap_or("null").to_owned(),
        }),
        "update" | "insert" => Some(match answer.affected {
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        }),
        _ => None,
    }
}

fn told_refusal(refusal: &SqlRefusal) -> String {
    let SqlRefusal { code, state, message, .. } = refusal;
    match state {
        Some(state) => format!("ERROR {code} ({state}): {message}"),
        None => format!("ERROR {code}: {message}"),
    }
}
