//! The store's counters, read when somebody scrapes.

use holdfast_apiserver::ApiServer;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

pub struct StoreMetrics {
    api: ApiServer,
}

impl StoreMetrics {
    pub fn new(api: ApiServer) -> StoreMetrics {
        StoreMetrics { api }
    }
}

impl std::fmt::Debug for StoreMetrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StoreMetrics")
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let metrics = self.api.metrics();
        for (name, help, value) in [
            ("store_writes", "Objects written or removed", metrics.writes),
            ("store_commits", "Durable commits; each holds one write or more", metrics.commits),
            ("store_conflicts", "Writes refused because another came first", metrics.conflicts),
        ] {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        for (name, help, value) in [
            ("store_watches", "Open watches", i64::try_from(metrics.watches).unwrap_or(i64::MAX)),
            (
                "store_failed",
                "1: the store failed and the daemon must be restarted",
                self.api.store_failed().into(),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}
