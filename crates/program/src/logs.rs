//! Logs and traces of a program.

use std::any::Any;
use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::environment::wants_traces;
use crate::{ConfigError, LogFormat, log_filter, log_format};

/// Writes logs to standard error, so that standard output is for results, and sends traces where the build and the
/// environment have them. The last traces are sent
/// when the answer is dropped.
pub(crate) fn start(default_filter: &str) -> Result<EndOfTraces, ConfigError> {
    let filter = log_filter(default_filter)?;
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        // A server goes on where nobody reads its log; to say that it cannot be written would be a panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let lines = match log_format()? {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_ansi(false).boxed(),
    };
    let (layer, traces) = if wants_traces() { otlp::start()? } else { (None, None) };
    tracing_subscriber::registry().with(layer).with(lines.with_filter(filter)).init();
    if wants_traces() && traces.is_none() {
        tracing::warn!(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and this program was built without traces (--features otlp)"
        );
    }
    Ok(traces)
}

pub use otlp::continue_trace;

/// What sends the last traces when it is dropped.
type EndOfTraces = Option<Box<dyn Any>>;

#[cfg(feature = "otlp")]
mod otlp {
    use std::collections::HashMap;

    use opentelemetry::propagation::TextMapPropagator;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt;
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::{LevelFilter, Targets};

    use super::EndOfTraces;
    use crate::ConfigError;

    /// The target of the spans that are sent.
    const SPANS: &str = "seckill::request";

    /// Makes `span` part of the trace that a client's `traceparent` (W3C Trace Context) names.
    pub fn continue_trace(span: &Span, traceparent: Option<&str>) {
        let Some(traceparent) = traceparent.filter(|_| !span.is_disabled()) else { return };
        let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
        // A span that was entered has its place already; this one was made a moment ago.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
    }

    /// What sends traces.
    struct Traces(SdkTracerProvider);

    impl Drop for Traces {
        fn drop(&mut self) {
            if let Err(error) = self.0.shutdown() {
                eprintln!("seckill: the last traces were not sent: {error}");
            }
        }
    }

    /// The settings are those of the specification: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`,
    /// `OTEL_TRACES_SAMPLER` and the others.
    pub(super) fn start<S>() -> Result<(Option<impl Layer<S>>, EndOfTraces), ConfigError>
    where
        S: tracing::Subscriber + for<'span> tracing_subscriber::registry::LookupSpan<'span>,
    {
        let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpJson);
        let exporter = exporter.build().map_err(|error| {
            ConfigError(format!("the exporter of traces cannot be used: {error}"))
        })?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(Resource::builder().with_service_name("seckill").build())
            .build();
        let spans = Targets::new().with_target(SPANS, LevelFilter::DEBUG);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("seckill"))
            .with_filter(spans);
        Ok((Some(layer), Some(Box::new(Traces(provider)))))
    }
}

#[cfg(not(feature = "otlp"))]
mod otlp {
    use tracing::Span;
    use tracing_subscriber::layer::Identity;

    use super::EndOfTraces;
    use crate::ConfigError;

    /// Makes `span` part of the trace that a client's `traceparent` names: not in this build.
    pub const fn continue_trace(_: &Span, _: Option<&str>) {}

    #[expect(clippy::unnecessary_wraps, reason = "as in the other build")]
    pub(super) const fn start() -> Result<(Option<Identity>, EndOfTraces), ConfigError> {
        Ok((None, None))
    }
}
