//! Counters of the controllers. Labels come from enums and manifests only, so their number is bounded.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindPhase {
    kind: String,
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderCallback {
    provider: String,
    callback: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderPhase {
    provider: String,
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderOutcome {
    provider: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderClass {
    provider: String,
    class: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct CallbackBuckets;

impl MetricConstructor<Histogram> for CallbackBuckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0])
    }
}

/// The counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    transitions: Family<KindPhase, Counter>,
    callbacks: Family<ProviderCallback, Histogram, CallbackBuckets>,
    waits: Family<Reason, Counter>,
    allocations: Family<ProviderPhase, Counter>,
    resolutions: Family<ProviderOutcome, Counter>,
    orphans: Family<ProviderClass, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            transitions: Family::default(),
            callbacks: Family::new_with_constructor(CallbackBuckets),
            waits: Family::default(),
            allocations: Family::default(),
            resolutions: Family::default(),
            orphans: Family::default(),
        }
    }
}

impl Metrics {
    /// Counters that are shown by `registry`, whose prefix says whose they are.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("operation_phases", "Operations that entered a phase", metrics.transitions.clone());
        registry.register_with_unit(
            "callback_duration",
            "Time that callbacks of providers took",
            Unit::Seconds,
            metrics.callbacks.clone(),
        );
        registry.register(
            "operation_waits",
            "Waits that operations, classes and allocations began",
            metrics.waits.clone(),
        );
        registry.register(
            "allocation_phases",
            "Allocations that entered a phase",
            metrics.allocations.clone(),
        );
        registry.register(
            "class_orphans",
            "Resources under our marker that nobody has on record",
            metrics.orphans.clone(),
        );
        registry.register("class_resolutions", "Resolutions of classes", metrics.resolutions.clone());
        metrics
    }

    /// An operation of a kind that a manifest names entered a phase.
    pub(crate) fn phase(&self, kind: &str, phase: &'static str) {
        self.transitions.get_or_create(&KindPhase { kind: kind.to_owned(), phase }).inc();
    }

    pub(crate) fn callback(&self, provider: &str, callback: &'static str, took: Duration) {
        let labels = ProviderCallback { provider: provider.to_owned(), callback };
        self.callbacks.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// An allocation entered a phase; `provider` is blank before a class is known.
    pub(crate) fn allocation(&self, provider: &str, phase: &'static str) {
        self.allocations.get_or_create(&ProviderPhase { provider: provider.to_owned(), phase }).inc();
    }

    /// A class was resolved by a loaded provider, or was not.
    pub(crate) fn resolution(&self, provider: &str, outcome: &'static str) {
        self.resolutions.get_or_create(&ProviderOutcome { provider: provider.to_owned(), outcome }).inc();
    }

    /// A class was swept. Operators make classes, and few of them.
    pub(crate) fn orphans(&self, provider: &str, class: &str, found: usize) {
        let labels = ProviderClass { provider: provider.to_owned(), class: class.to_owned() };
        self.orphans.get_or_create(&labels).set(i64::try_from(found).unwrap_or(i64::MAX));
    }

    /// A class is gone.
    pub(crate) fn no_class(&self, provider: &str, class: &str) {
        let labels = ProviderClass { provider: provider.to_owned(), class: class.to_owned() };
        self.orphans.remove(&labels);
    }

    pub(crate) fn wait(&self, reason: &'static str) {
        self.waits.get_or_create(&Reason { reason }).inc();
    }
}
