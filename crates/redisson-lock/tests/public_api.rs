//! What a user of the lock's crate, and of that of its connections, can name: a change of it is seen in this file's
//! twin, `golden/public_api.txt`. What is `pub` in the source is reachable: the compiler's `unreachable_pub` sees to it.

use std::fmt::Write;
use std::path::Path;

use testkit::golden::assert_file;

/// Items, fields and methods that are `pub`, and the variants of enums, by file: heads without bodies.
fn public_items(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let mut found: Vec<String> = Vec::new();
    // The head of an item that goes on in the next line; whether the lines are those of an enum.
    let (mut head, mut in_enum): (Option<String>, bool) = (None, false);
    let mut is_hidden = false;
    for line in source.lines() {
        let (indented, line) = (line.starts_with(' '), line.trim());
        is_hidden |= line == "#[doc(hidden)]" || line == "#[cfg(feature = \"__scripts\")]";
        if line.starts_with("//") || (line.starts_with("#[") && line != "#[non_exhaustive]") {
            continue;
        }
        if std::mem::take(&mut is_hidden) {
            continue;
        }
        let begins = line.starts_with("pub ") || line == "#[non_exhaustive]";
        if in_enum && !indented && line == "}" {
            in_enum = false;
        } else if in_enum && line.starts_with(|first: char| first.is_ascii_uppercase()) {
            found.push(format!("    {line}"));
        } else if begins || head.is_some() {
            let mut whole = head.take().map_or_else(String::new, |head| head + " ");
            whole.push_str(line);
            // Where a list of arguments ends, or a type.
            if line.ends_with(['{', ';', '}', ','])
                && whole.matches('(').count() == whole.matches(')').count()
            {
                let item = whole.trim_end_matches([' ', '{', ';', ',']).to_owned();
                in_enum = item.contains("pub enum ") && line.ends_with('{');
                found.push(item);
            } else {
                head = Some(whole);
            }
        }
    }
    found
}

fn of_crate(name: &str, text: &mut String) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut files: Vec<_> =
        std::fs::read_dir(&source).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    // What is in these nobody can name, unless he asks for what is hidden.
    let is_seen = |file: &&std::path::PathBuf| {
        let name = file.file_name().unwrap();
        file.extension().is_some_and(|ext| ext == "rs") && name != "timeout.rs"
    };
    for file in files.iter().filter(is_seen) {
        let items = public_items(&std::fs::read_to_string(file).unwrap());
        if !items.is_empty() {
            let file = file.file_name().unwrap().to_string_lossy();
            writeln!(text, "\n{name}/{file}\n{}", items.join("\n")).unwrap();
        }
    }
}

#[test]
fn the_public_interface_is_what_its_list_says() {
    let mut text = String::from(
        "What tests/public_api.rs finds in the source. A line less, or another one, breaks somebody.\n",
    );
    of_crate("redis-link", &mut text);
    of_crate("redisson-lock", &mut text);
    assert_file("crates/redisson-lock/tests/golden/public_api.txt", &text);
}
