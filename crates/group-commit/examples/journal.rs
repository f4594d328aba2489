//! Lines for a journal, each on disk before its writer goes on: with one `fsync` a line, then with one
//! `fsync` a batch.
//!
//! `cargo run -p group-commit --example journal`

use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use group_commit::{Batcher, Limits};

const WRITERS: usize = 64;
const LINES: usize = 20; // by each writer, one after the other

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("group-commit-{}.journal", std::process::id()));
    for (name, batch) in [("one line at a time", 1), ("lines that wait together", 256)] {
        let journal = Arc::new(File::create(&path)?);
        let commits = Arc::new(AtomicUsize::new(0));
        let limits = Limits::batches_of(batch).waiting(1_000);
        let (file, count) = (Arc::clone(&journal), Arc::clone(&commits));
        let lines = Batcher::new(limits, move |lines: Vec<String>| {
            let file = Arc::clone(&file);
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                let answers = vec![(); lines.len()];
                let written = tokio::task::spawn_blocking(move || {
                    (&*file).write_all(lines.concat().as_bytes())?;
                    file.sync_data()
                });
                match written.await {
                    Ok(Ok(())) => Ok(answers),
                    Ok(Err(error)) => Err(Arc::new(error)),
                    Err(error) => Err(Arc::new(error.into())),
                }
            }
        });

        let begun = Instant::now();
        let writers = (0..WRITERS).map(|writer| {
            let lines = lines.clone();
            tokio::spawn(async move {
                for line in 0..LINES {
                    lines.submit(format!("writer {writer}, line {line}\n")).await?;
                }
                Ok::<_, group_commit::BatchError<Arc<std::io::Error>>>(())
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await??;
        }
        let took = begun.elapsed();

        let in_the_file = fs::read_to_string(&path)?.lines().count();
        assert_eq!(in_the_file, WRITERS * LINES, "every line that was answered is in the file");
        let commits = commits.load(Ordering::Relaxed);
        println!("{name}: {in_the_file} lines on disk by {commits} calls of fsync, in {took:.0?}");
    }
    fs::remove_file(path)?;
    Ok(())
}
