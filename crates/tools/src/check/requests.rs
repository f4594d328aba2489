//! The requests of a target's file: a purchase with its steps, and those that are made by themselves.

use std::sync::Arc;

use axum::http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderName, Method};
use load::answer_rules::AnswerReader;
use load::target::{Step, Target};
use load::template::{Placeholder, Template};
use program::ConfigError;

use super::compile::Compiler;
use super::file::{AnswerTable, RequestTable, SaleTable, TargetFile};
use super::rules::{is_yes, outcome, reader};
use super::target::{CheckRequest, VoucherSource};
use super::values::Located;

/// Names that earlier answers give something to.
type Names = [Arc<str>];

impl Compiler<'_> {
    fn template(&self, text: &Located<String>, taken: &Names) -> Result<Template, ConfigError> {
        let template = Template::parse(&text.value, taken);
        template.map_err(|unknown| {
            let taken: String = taken.iter().map(|name| format!(", {{{name}}}")).collect();
            let known = format!("known are {{token}}, {{user}}, {{voucher}}{taken}");
            self.source.wrong(text.at, format!("{unknown}: {known}"))
        })
    }

    /// A purchase with its steps.
    pub(super) fn purchase(&self, file: &TargetFile) -> Result<CheckRequest, ConfigError> {
        let (mut steps, mut names) = (Vec::new(), Vec::new());
        // A step's answer that ends an attempt is a refusal.
        let answers = file.answer.iter().filter(|rule| !is_yes(rule.value.is));
        let answers: Vec<_> = answers.collect();
        for table in &file.step {
            let request = self.request(table, Method::POST, &answers, &names)?;
            let mut takes = Vec::new();
            for (name, place) in &table.value.take {
                let known = ["token", "user", "voucher", "order", "stock"];
                let is_word = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_'));
                if name.is_empty() || !is_word || known.contains(&name.as_str()) {
                    let why = format!("{name:?} is no new word of small letters and \"_\"");
                    return Err(self.source.wrong(place.at, why));
                }
                let name: Arc<str> = name.as_str().into();
                names.push(Arc::clone(&name));
                takes.push((name, place.value.0.clone()));
            }
            let CheckRequest { path, target, .. } = request;
            steps.push(Step { path, target, takes: takes.into() });
        }
        let answers: Vec<_> = file.answer.iter().collect();
        let mut purchase = self.request(&file.purchase, Method::POST, &answers, &names)?;
        self.check_take(&file.purchase)?;
        purchase.target.before = steps.into();
        let names_buyer = [Placeholder::User, Placeholder::Token].iter().any(|it| purchase.has(it));
        if !names_buyer && file.per_user.as_ref().is_none_or(|most| most.value.0.is_some()) {
            let why = "neither {token} nor {user} is in the purchase: everybody would be one buyer";
            return Err(self.source.wrong(file.purchase.at, why));
        }
        Ok(purchase)
    }

    /// What nobody would ever use.
    pub(super) fn check_take(&self, table: &Located<RequestTable>) -> Result<(), ConfigError> {
        match table.value.take.is_empty() {
            true => Ok(()),
            false => Err(self.source.wrong(table.at, "only a [[step]] has take")),
        }
    }

    fn method(&self, table: &RequestTable, usual: Method) -> Result<Method, ConfigError> {
        let Some(method) = &table.method else { return Ok(usual) };
        let parsed = method.value.to_ascii_uppercase().parse();
        parsed.map_err(|_| self.source.wrong(method.at, format!("no method: {:?}", method.value)))
    }

    /// The headers of a request, each of them once.
    fn headers(
        &self,
        table: &RequestTable,
        taken: &Names,
    ) -> Result<Vec<(HeaderName, Template)>, ConfigError> {
        let mut headers: Vec<(HeaderName, Template)> = Vec::new();
        for (text, value) in &table.headers {
            let wrong = |why: String| self.source.wrong(value.at, why);
            let name = text.parse::<HeaderName>();
            let name = name.map_err(|_| wrong(format!("{text:?} is no name of a header")))?;
            if [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
                return Err(wrong(format!("the header {name} is written by check itself")));
            }
            if headers.iter().any(|(other, _)| *other == name) {
                return Err(wrong(format!("the header {name} is there twice")));
            }
            if value.value.contains(char::is_control) {
                return Err(wrong(format!("the header {name} has a control character in it")));
            }
            headers.push((name, self.template(value, taken)?));
        }
        Ok(headers)
    }

    fn check_path(&self, path: &Located<String>, taken: &Names) -> Result<(), ConfigError> {
        let wrong = |why: &str| Err(self.source.wrong(path.at, format!("the path {why}")));
        let is_taken = taken.iter().any(|name| path.value.starts_with(&format!("{{{name}}}")));
        if !path.value.starts_with('/') && !is_taken {
            return wrong("does not begin with a slash");
        }
        if path.value.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
            return wrong("has a space or another character that must be percent-encoded");
        }
        Ok(())
    }

    pub(super) fn request(
        &self,
        table: &Located<RequestTable>,
        usual: Method,
        answers: &[&Located<AnswerTable>],
        taken: &Names,
    ) -> Result<CheckRequest, ConfigError> {
        let table = &table.value;
        self.check_path(&table.path, taken)?;
        let headers = self.headers(table, taken)?;
        let body = table.body.as_ref().map(|body| self.template(body, taken)).transpose()?;
        let rules = answers.iter().map(|rule| self.source.wrong(rule.at, outcome(rule.value.is)).0);
        let rules = rules.collect();
        let answers = AnswerReader::Rules(reader(answers, self.source)?.into());
        let (method, body) = (self.method(table, usual)?, body.unwrap_or_default());
        let target = Target { method, headers, body, answers, before: Arc::default() };
        Ok(CheckRequest { path: self.template(&table.path, taken)?, target, rules })
    }

    /// A request that is made by itself, and whose answer is not read by rules.
    pub(super) fn single(
        &self,
        table: &Located<RequestTable>,
        usual: Method,
    ) -> Result<CheckRequest, ConfigError> {
        self.check_take(table)?;
        self.request(table, usual, &[], &[])
    }

    /// The request that puts a voucher on sale.
    pub(super) fn new_voucher(
        &self,
        sale: &Located<SaleTable>,
        table: &Located<RequestTable>,
    ) -> Result<VoucherSource, ConfigError> {
        self.check_take(table)?;
        let request = self.request(table, Method::POST, &[], &["stock".into()])?;
        if Placeholder::ALWAYS.iter().any(|it| request.has(it)) {
            let why = "a new voucher has no placeholder but {stock}";
            return Err(self.source.wrong(table.at, why));
        }
        let pointer = self.pointer(sale.at, sale.value.voucher.as_deref().unwrap_or("/data"))?;
        Ok(VoucherSource::Request { request: request.into(), pointer })
    }
}
