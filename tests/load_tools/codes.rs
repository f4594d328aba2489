//! The load tests for k6 and JMeter name only codes that the API has, and say in both languages
//! what they take. That they run, pass and fail as they should is `make loadtest`'s to show.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use seckill::http::problem::Code;

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("loadtest").join(file)).unwrap()
}

fn codes_of_the_api() -> BTreeSet<String> {
    Code::ALL.iter().map(|code| code.as_str().to_owned()).collect()
}

/// What stands between `begin` and `end` wherever they occur.
fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
}

/// The words in single quotation marks in a list such as `CODES = ['a', 'b'];`.
fn list(text: &str, name: &str) -> BTreeSet<String> {
    let begin = format!("{name} = [");
    let found = between(text, &begin, "];").next().unwrap_or_default();
    found.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

const K6: [&str; 4] = ["rush", "double_click", "capacity", "lab"];
const JMETER: [&str; 2] = ["rush", "double_click"];

#[test]
fn k6_knows_only_codes_that_there_are() {
    let known = list(&read("k6/seckill.js"), "export const CODES");
    assert!(known.contains("ordered") && known.contains("internal_error"), "{known:?}");
    let mut answers = codes_of_the_api();
    answers.insert("ordered".to_owned());
    assert_eq!(known.difference(&answers).next(), None, "a code that the API does not have");
    for script in K6 {
        let expected = list(&read(&format!("k6/{script}.js")), "const EXPECTED");
        assert!(expected.contains("ordered"), "{script}: {expected:?}");
        assert_eq!(expected.difference(&known).next(), None, "{script}: nobody counts that code");
    }
}

#[test]
fn jmeter_knows_only_codes_that_there_are() {
    let answers = codes_of_the_api();
    for plan in JMETER {
        let text = read(&format!("jmeter/{plan}.jmx"));
        let alternatives: Vec<&str> = between(&text, "\"code\":\"(", ")\"").collect();
        // The assertion names them; the extractor takes any, of both dialects.
        assert_eq!(alternatives.len(), 1, "{plan}: {alternatives:?}");
        for code in alternatives[0].split('|') {
            assert!(answers.contains(code), "{plan}: the API has no code {code}");
        }
        assert!(text.contains("\"(?:code|errorMsg)\":\"([^\"]+)\"<"), "{plan}");
    }
}

/// The elements that are open at the end, or the end tag that does not fit.
fn open_elements(xml: &str) -> Result<Vec<&str>, &str> {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let end = if rest.starts_with("<!--") { "-->" } else { ">" };
        let Some((tag, after)) = rest.split_once(end) else { return Err(rest) };
        rest = after;
        if tag.starts_with("<!--") || tag.starts_with("<?") || tag.ends_with('/') {
            continue;
        }
        let name = tag[1..].split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            None => open.push(name),
            Some(closed) if open.pop() == Some(closed) => {}
            Some(_) => return Err(tag),
        }
    }
    Ok(open)
}

#[test]
fn the_plans_are_well_formed_and_in_the_old_format() {
    for plan in JMETER {
        let text = read(&format!("jmeter/{plan}.jmx"));
        assert_eq!(open_elements(&text), Ok(vec![]), "{plan}");
        assert!(text.contains("<jmeterTestPlan version=\"1.2\" properties=\"2.8\">"), "{plan}");
    }
    assert_eq!(open_elements("<a><b/><!-- <x> --></a><c>"), Ok(vec!["c"]));
    assert_eq!(open_elements("<a></b>"), Err("</b"));
}

#[test]
fn both_languages_name_the_same_things_and_what_they_name_is_there() {
    let (english, chinese) = (read("README.md"), read("README.zh-CN.md"));
    let names = |text: &str| -> BTreeSet<String> {
        // Outside of blocks, where quotation marks come in pairs.
        let prose: String = text.split("```").step_by(2).collect();
        prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    assert_eq!(names(&english), names(&chinese));
    let sources: String = K6
        .iter()
        .map(|script| read(&format!("k6/{script}.js")))
        .chain(["k6/seckill.js", "k6/report.js", "jmeter/run.sh", "prove.sh"].map(read))
        .collect();
    for name in names(&english) {
        let variable = name.len() > 2 && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let ours = variable && !["PATH", "DATABASE_URL", "SECKILL_SECRET"].contains(&name.as_str());
        assert!(!ours || sources.contains(&name), "nothing reads {name}");
    }
}
