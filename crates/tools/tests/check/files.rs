//! Files that cannot be used: one sentence with the line. And those that ship.

use std::path::Path;

use load::calls::Call;
use load::template::Values;
use seckill_tools::check::presets::{NAMES, example, find};
use seckill_tools::check::read::SourceText;
use seckill_tools::check::schema;
use seckill_tools::check::target::CheckTarget;
use testkit::processes::place;
use testkit::program::Program;

const GOOD: &str = r#"addresses = ["http://127.0.0.1:1"]
voucher = "7"
[purchase]
path = "/buy/{voucher}"
headers = { authorization = "Bearer {token}" }
[tokens]
lines = "tokens.txt"
[[answer]]
is = "ordered"
status = 200
[books]
command = "true"
"#;

/// What it says of the voucher, and of its books.
const VOUCHER: &str = "voucher = \"7\"";
const COMMAND: &str = "command = \"true\"";
const PATH: &str = "\"/buy/{voucher}\"";
const STATUS: &str = "status = 200";

const LOGIN: &str = "login = { request = { path = \"/{user}\" }, token = \"data\" }";
const SALE: &str = "sale = { request = { path = \"/{stock}\" }, voucher = \"id\" }";

async fn refusal(text: &str) -> String {
    match CheckTarget::compile(SourceText::of("target.toml", text)).await {
        Ok(_) => panic!("it is taken: {text}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_refused_with_its_line() {
    assert!(CheckTarget::compile(SourceText::of("target.toml", GOOD)).await.is_ok());
    refused(&[
        ("addresses =", "adresses =", 1, "unknown key \"adresses\", did you mean \"addresses\"?"),
        (VOUCHER, "voucher = true", 2, "neither a text nor a whole number"),
        (VOUCHER, "preset = \"hmpd\"", 2, "no preset \"hmpd\", did you mean \"hmdp\"?"),
        (VOUCHER, "preset = 3", 2, "preset is not a text"),
        (VOUCHER, "", 1, "neither a voucher nor a [sale]"),
        ("http://127.0.0.1:1", "127.0.0.1", 1, "is no address"),
        ("[\"http://127.0.0.1:1\"]", "[]", 1, "there is no address"),
        (PATH, "\"buy\"", 4, "does not begin with a slash"),
        (PATH, "\"/buy/{vouchr}\"", 4, "no placeholder {vouchr}"),
        (PATH, "\"/buy 1\"", 4, "percent-encoded"),
        ("path =", "pth =", 4, "unknown key \"pth\", did you mean \"path\"?"),
        ("path =", "method = \"B C\"\npath =", 4, "no method: \"B C\""),
        ("authorization", "\"a b\"", 5, "no name of a header"),
        ("authorization", "content-length = \"1\", a", 5, "content-length is written by check"),
        ("authorization", "Connection = \"close\", a", 5, "connection is written by check"),
        ("authorization", "transfer-encoding = \"x\", a", 5, "transfer-encoding is written by"),
        ("authorization", "x-A = \"\", X-a = \"\", a", 5, "the header x-a is there twice"),
        ("Bearer {token}", "a\\n{token}", 5, "has a control character in it"),
        ("lines = \"tokens.txt\"", "", 6, "one of csv, lines and login"),
        ("[tokens]\nlines = \"tokens.txt\"", "", 3, "there is no [tokens]"),
        ("is = \"ordered\"", "is = \"orderd\"", 9, "\"orderd\" is not known here, did you mean"),
        ("is = \"ordered\"", "is = \"sold_out\"", 3, "nobody would ever hear yes"),
        (STATUS, "", 8, "a rule needs a status"),
        (STATUS, "status = 20", 8, "20 is no HTTP status"),
        (STATUS, "status = \"200\"", 10, "invalid type: string"),
        (STATUS, "equals = 1", 8, "need a pointer"),
        (STATUS, "pointer = \"/a\"", 8, "a pointer needs one of"),
        (STATUS, "pointer = \"a\"\nequals = 1", 8, "no JSON pointer"),
        (STATUS, "pointer = \"/a\"\nequals = 1\npresent = true", 8, "a rule has one of"),
        (STATUS, "pointer = \"/a\"\nequals = [1]", 8, "no text, number or boolean"),
        (STATUS, "pointer = \"/a\"\none_of = []", 8, "compares with nothing"),
        (STATUS, "contains = []", 8, "compares with nothing"),
        (STATUS, "contains = [\"a\", \"\"]", 8, "compares with nothing"),
        (STATUS, "status = []", 8, "compares with nothing"),
        ("lines = \"tokens.txt\"", LOGIN, 7, "\"data\" is no JSON pointer"),
        (VOUCHER, "sale = { request = { path = \"/{voucher}\" } }", 2, "but {stock}"),
        (VOUCHER, "sale = { request = { path = \"/{stok}\" } }", 2, "no placeholder {stok}"),
        (VOUCHER, SALE, 2, "\"id\" is no JSON pointer"),
        (COMMAND, "", 11, "one of command and request"),
        (COMMAND, "command = \"true\"\nquiet = \"soon\"", 13, "no duration such as"),
        (COMMAND, "command = \"true\"\nusers = \"n\"", 11, "no JSON pointer"),
        (COMMAND, "request = { path = \"/{user}\" }", 12, "of nobody"),
        (COMMAND, "command = \"true\"\n[sale]\nstock = 0", 14, "cannot be sold"),
        (COMMAND, "command = \"true\"\nwithin = \"0s\"", 12, "within no time"),
        (COMMAND, "command =", 12, ""),
    ])
    .await;
}

#[tokio::test]
async fn what_a_file_says_of_limits_steps_and_items_is_looked_at_likewise() {
    refused(&[
        (VOUCHER, "voucher = \"7\"\nper_user = 0", 3, "neither a number from 1 to 1000"),
        (VOUCHER, "voucher = \"7\"\nper_user = 1001", 3, "nor \"none\""),
        (VOUCHER, "voucher = \"7\"\nper_user = \"any\"", 3, "nor \"none\""),
        (VOUCHER, "sale = { vouchers = [] }", 2, "neither a list of 1 to 10000"),
        (VOUCHER, "sale = { vouchers = \"2..1\" }", 2, "nor a range"),
        (VOUCHER, "sale = { vouchers = \"1..10001\" }", 2, "nor a range"),
        (VOUCHER, "voucher = 7\nsale = { command = \"true\" }", 3, "one of voucher and"),
        ("path =", "take = { a = \"/a\" }\npath =", 3, "only a [[step]] has take"),
        ("Bearer {token}", "Bearer", 3, "everybody would be one buyer"),
        (STATUS, "header = \"location\"", 8, "so does a header"),
        (STATUS, "header = \"a\"\npointer = \"/a\"\nequals = 1", 8, "one of pointer and header"),
        (STATUS, "status = 200\norder = \"a\"", 11, "no JSON pointer"),
    ])
    .await;
    for (step, why) in [
        ("path = \"/\", take = { user = \"/a\" }", "no new word"),
        ("path = \"/\", take = { Co = \"/a\" }", "no new word"),
        ("path = \"/{a}\", take = { a = \"/a\" }", "no placeholder {a}"),
        ("path = \"/\", take = { a = {} }", "one of pointer"),
        ("path = \"/\", take = { a = { header = \"a b\" } }", "no name of a header"),
    ] {
        let step = format!("voucher = 7\nstep = [{{ {step} }}]");
        refused(&[(VOUCHER, &step, 3, why)]).await;
    }
}

/// Each of these lines instead of another one is refused, at this line of the file and for this reason.
async fn refused(mistakes: &[(&str, &str, usize, &str)]) {
    for (line, instead, at, why) in mistakes {
        let text = GOOD.replacen(line, instead, 1);
        assert_ne!(text, GOOD, "{line}");
        let refusal = refusal(&text).await;
        let begins = format!("target.toml:{at}: ");
        assert!(refusal.starts_with(&begins) && refusal.contains(why), "{instead}: {refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
}

/// How user `u` buys voucher 1.
fn purchase(target: &CheckTarget) -> Call {
    let values = Values { user: "u", token: "t", taken: &[] };
    target.purchase.for_voucher("1").call(&target.nodes[0], &values).unwrap()
}

#[tokio::test]
async fn a_preset_is_added_to_and_printed_as_it_is_read() {
    let text = "\u{feff}preset = \"hmdp\"\naddresses = [\"http://127.0.0.1:1\"]\nvoucher = 1\n\
                [tokens]\nlines = \"t\"\n[[answer]]\nis = \"refused\"\nstatus = 418\n";
    let place = place();
    let file = place.path().join("target.toml");
    std::fs::write(&file, text).unwrap();
    let source = SourceText::read(&file).unwrap();
    let printed = source.expanded().unwrap();
    let own = printed.find("418").unwrap();
    let of_preset = printed.find("库存不足").unwrap();
    assert!(own < of_preset && !printed.contains("preset"), "{printed}");
    let mut calls = Vec::new();
    for source in [source, SourceText::of("printed", &printed)] {
        let target = CheckTarget::compile(source).await.unwrap();
        calls.push(purchase(&target));
        assert_eq!(target.purchase.rules.len(), 8, "{printed}");
    }
    assert_eq!((&calls[0].path, &calls[0].headers), (&calls[1].path, &calls[1].headers));
}

#[tokio::test]
async fn a_preset_lies_beneath_the_file_and_its_purchase_is_mixed_key_by_key() {
    let text = "preset = \"hmdp\"\naddresses = [\"http://127.0.0.1:1\"]\nvoucher = 1\n\
                [purchase]\nheaders = { x = \"{user}\", Host = \"h\" }\n";
    // The token of the preset's header is missed where the purchase is.
    let said = refusal(text).await;
    assert!(said.starts_with("target.toml:4: {token} is used"), "{said}");
    let text =
        format!("{text}[tokens]\nlines = \"t\"\n[[answer]]\nis = \"ordered\"\nstatus = 201\n");
    let capital = text.replace("Host = ", "Authorization = \"own\", Host = ");
    for (text, value) in [(text, "t"), (capital, "own")] {
        let target = CheckTarget::compile(SourceText::of("target.toml", &text)).await.unwrap();
        let call = purchase(&target);
        assert_eq!(call.path, "/voucher-order/seckill/1");
        let headers =
            ["authorization", "x", "host"].map(|name| call.headers[name].to_str().unwrap());
        assert_eq!((headers, call.headers.len()), ([value, "u", "h"], 3));
    }
}

#[tokio::test]
async fn every_file_that_ships_can_be_used() {
    for name in NAMES {
        assert!(find(name).is_some(), "{name}");
    }
    for name in ["own", "seckill", "hmdp", "lab"] {
        let text = example(name).unwrap();
        let made = CheckTarget::compile(SourceText::of(name, text)).await;
        assert!(made.is_ok(), "{:?}", made.err());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in ["docs/check.md", "docs/check.zh-CN.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let blocks: Vec<_> = blocks.collect();
        assert!(blocks.len() >= 3, "{page}");
        for block in blocks.iter().filter(|block| block.contains("addresses")) {
            let made = CheckTarget::compile(SourceText::of(page, block)).await;
            assert!(made.is_ok(), "{:?}", made.err());
        }
    }
}

#[test]
fn the_schema_for_editors_is_that_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/check.schema.json");
    let written = std::fs::read_to_string(file).unwrap();
    let renew = "renew it: seckill check --schema > docs/check.schema.json";
    assert!(written == schema().unwrap(), "{renew}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_cannot_be_used_is_refused_before_anything_is_sent() {
    let place = place();
    let file = place.path().join("target.toml");
    std::fs::write(&file, GOOD).unwrap();
    let file = file.to_str().unwrap();
    for (arguments, why) in [
        (&[][..], "cannot read"),
        (&["--json", file], "is the file of the target"),
        (&["--html", file], "is the file of the target"),
    ] {
        let arguments = [&["check", file], arguments].concat();
        Program::alone().run(&arguments).await.refused(2, why);
    }
}
