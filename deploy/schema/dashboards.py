"""The Grafana dashboards of the chart: what each shows, as tables. A panel is (title, kind, unit, queries, width), a query
its expression and the legend of its series. Variables: $hostname, $namespace, $pod.

A GPU that several pods share has its series once for each of them: sums and averages over GPUs take one of each first.
"""

import json

_ON = 'hostname=~"$hostname"'
# Where the scrape does not honour the exporter's labels, `pod` is the exporter's own.
_HELD = 'pod!="", container!="nvidia-dcgm-exporter"'
_OF = f'namespace=~"$namespace", pod=~"$pod", {_HELD}'
_GPU = "{{hostname}} GPU {{gpu}}"
_POD = "{{namespace}}/{{pod}} GPU {{gpu}}"
_INSTANCE = "{{hostname}} GPU {{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"


def _once(metric, *labels, where=""):
    """One series for each GPU or instance, whoever has it."""
    selector = "{" + where + "}" if where else ""
    return f"max by ({', '.join(('UUID', 'hostname', 'gpu', *labels))}) ({metric}{selector})"


def _gpus(where=""):
    return _once("DCGM_FI_DEV_GPU_TEMP", where=where)


_INSTANCES = 'GPU_I_ID!=""'

FLEET = ("GPU fleet", (), [
    ("GPUs", "stat", "short", [(f"count({_gpus()})", "")], 4),
    ("GPUs that pods have", "stat", "short", [(f"count(count by (UUID) (DCGM_FI_DEV_FB_USED{{{_HELD}}}))", "")], 4),
    ("GPUs that do not answer", "stat", "short",
     [("sum(pitcrew_metrics_exporter_gpu_readable == bool 0)", "")], 4),
    ("GPU nodes", "stat", "short", [("max(gpu_operator_gpu_nodes_total)", "")], 4),
    ("Policy ready (1: yes)", "stat", "short", [("min(gpu_operator_reconciliation_status)", "")], 4),
    ("Power", "stat", "watt", [(f"sum({_once('DCGM_FI_DEV_POWER_USAGE')})", "")], 4),
    ("GPUs by model", "timeseries", "short",
     [("count by (modelName) (max by (UUID, hostname, gpu, modelName) (DCGM_FI_DEV_GPU_TEMP))", "{{modelName}}")], 12),
    ("Use of GPUs, on average", "timeseries", "percent", [(f"avg({_once('DCGM_FI_DEV_GPU_UTIL')})", "all")], 12),
    ("Memory in use", "timeseries", "percentunit",
     [(f"sum({_once('DCGM_FI_DEV_FB_USED')}) / (sum({_once('DCGM_FI_DEV_FB_USED')}) + "
       f"sum({_once('DCGM_FI_DEV_FB_FREE')}))", "all")], 12),
    ("GPUs by namespace", "timeseries", "short",
     [(f"count by (namespace) (max by (namespace, UUID, GPU_I_ID) (DCGM_FI_DEV_FB_USED{{{_HELD}}}))", "{{namespace}}")], 12),
    ("Pods of operands that are not ready", "timeseries", "short",
     [("gpu_operator_operand_pods_desired - gpu_operator_operand_pods_ready", "{{daemonset}}")], 12),
    ("Answers of the API server to the operator", "timeseries", "reqps",
     [("sum by (verb) (rate(gpu_operator_api_requests_total[$__rate_interval]))", "{{verb}}")], 12),
])

NODE = ("GPU node", ("hostname",), [
    ("Use", "timeseries", "percent", [(_once("DCGM_FI_DEV_GPU_UTIL", where=_ON), _GPU)], 12),
    ("Memory in use", "timeseries", "decmbytes", [(_once("DCGM_FI_DEV_FB_USED", where=_ON), _GPU)], 12),
    ("Temperature", "timeseries", "celsius", [(_once("DCGM_FI_DEV_GPU_TEMP", where=_ON), _GPU)], 12),
    ("Power", "timeseries", "watt", [(_once("DCGM_FI_DEV_POWER_USAGE", where=_ON), _GPU)], 12),
    ("Clocks of the multiprocessors", "timeseries", "hertz",
     [(_once("DCGM_FI_DEV_SM_CLOCK", where=_ON) + " * 1000000", _GPU)], 12),
    ("Tensor cores active (Hopper and later)", "timeseries", "percentunit",
     [(_once("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "GPU_I_ID", where=_ON), _GPU)], 12),
    ("PCIe, sent and received (Hopper and later)", "timeseries", "Bps",
     [(_once("DCGM_FI_PROF_PCIE_TX_BYTES", where=_ON), f"{_GPU} sent"),
      (_once("DCGM_FI_PROF_PCIE_RX_BYTES", where=_ON), f"{_GPU} received")], 12),
    ("Energy since the driver's start", "timeseries", "joule",
     [(_once("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", where=_ON) + " / 1000", _GPU)], 12),
])

PODS = ("GPUs of pods", ("namespace", "pod"), [
    ("GPUs and instances that pods have", "stat", "short",
     [(f"count(max by (UUID, GPU_I_ID) (DCGM_FI_DEV_FB_USED{{{_OF}}}))", "")], 6),
    ("Pods with GPUs", "stat", "short", [(f"count(count by (namespace, pod) (DCGM_FI_DEV_FB_USED{{{_OF}}}))", "")], 6),
    ("Not busy for ten minutes", "table", "short",
     [(f"max by (namespace, pod, hostname, gpu) (max_over_time(DCGM_FI_DEV_GPU_UTIL{{{_OF}}}[10m])) < bool 1", _POD)], 12),
    ("Use", "timeseries", "percent", [(f"DCGM_FI_DEV_GPU_UTIL{{{_OF}}}", _POD)], 12),
    ("Memory in use", "timeseries", "decmbytes", [(f"DCGM_FI_DEV_FB_USED{{{_OF}}}", _POD)], 12),
    ("Power of their GPUs", "timeseries", "watt", [(f"DCGM_FI_DEV_POWER_USAGE{{{_OF}}}", _POD)], 12),
    ("Engines active (Hopper and later)", "timeseries", "percentunit",
     [(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{_OF}}}", _POD)], 12),
])

MIG = ("MIG", ("hostname",), [
    ("Instances", "stat", "short", [(f"count({_once('DCGM_FI_DEV_FB_USED', 'GPU_I_ID', where=f'{_INSTANCES}, {_ON}')})", "")], 6),
    ("Instances that pods have", "stat", "short",
     [(f"count(count by (UUID, GPU_I_ID) (DCGM_FI_DEV_FB_USED{{{_INSTANCES}, {_HELD}, {_ON}}}))", "")], 6),
    ("Instances by profile", "timeseries", "short",
     [("count by (GPU_I_PROFILE) (" + _once("DCGM_FI_DEV_FB_USED", "GPU_I_ID", "GPU_I_PROFILE",
                                            where=f"{_INSTANCES}, {_ON}") + ")", "{{GPU_I_PROFILE}}")], 12),
    ("Memory in use", "timeseries", "decmbytes",
     [(_once("DCGM_FI_DEV_FB_USED", "GPU_I_ID", "GPU_I_PROFILE", where=f"{_INSTANCES}, {_ON}"), _INSTANCE)], 12),
    ("Engines active (Hopper and later)", "timeseries", "percentunit",
     [(_once("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "GPU_I_ID", "GPU_I_PROFILE", where=f"{_INSTANCES}, {_ON}"), _INSTANCE)], 12),
])

HEALTH = ("Health of GPUs", ("hostname",), [
    ("GPUs that do not answer", "table", "short", [("pitcrew_metrics_exporter_gpu_readable < bool 1", "GPU {{gpu}} {{reason}}")], 12),
    ("Last XID", "table", "short", [(_once("DCGM_FI_DEV_XID_ERRORS", "err_code", "err_msg", where=_ON),
                                     f"{_GPU}: {{{{err_msg}}}}")], 12),
    ("Rows of memory that were replaced", "timeseries", "short",
     [(_once("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", where=_ON), f"{_GPU} uncorrectable"),
      (_once("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", where=_ON), f"{_GPU} correctable")], 12),
    ("Rows of memory that cannot be replaced", "timeseries", "short",
     [(_once("DCGM_FI_DEV_ROW_REMAP_FAILURE", where=_ON), _GPU)], 12),
    ("PCIe packets sent again", "timeseries", "short",
     [(_once("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", where=_ON), _GPU)], 12),
    ("Age of the readings", "timeseries", "s", [("pitcrew_metrics_exporter_round_age_seconds", "{{instance}}")], 12),
    ("Drivers", "table", "short",
     [(f"count by (DCGM_FI_DRIVER_VERSION) (max by (hostname, DCGM_FI_DRIVER_VERSION) (DCGM_FI_DEV_GPU_TEMP{{{_ON}}}))",
       "{{DCGM_FI_DRIVER_VERSION}}")], 12),
])

DASHBOARDS = {"fleet": FLEET, "node": NODE, "pods": PODS, "mig": MIG, "health": HEALTH}
# Where the values of a variable come from.
_VALUES = {"hostname": "label_values(DCGM_FI_DEV_GPU_TEMP, hostname)",
           "namespace": f"label_values(DCGM_FI_DEV_FB_USED{{{_HELD}}}, namespace)",
           "pod": f'label_values(DCGM_FI_DEV_FB_USED{{namespace=~"$namespace", {_HELD}}}, pod)'}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, 8


def _variable(name):
    return {"name": name, "label": name, "type": "query", "datasource": _SOURCE, "refresh": 2, "multi": True,
            "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
            "query": {"query": _VALUES[name], "refId": name}}


def _panel(number, panel, x, y):
    title, kind, unit, queries, width = panel
    height = 4 if kind == "stat" else _HEIGHT
    targets = [{"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend or "__auto",
                "datasource": _SOURCE, "instant": kind != "timeseries", "range": kind == "timeseries",
                **({"format": "table"} if kind == "table" else {})}
               for index, (expression, legend) in enumerate(queries)]
    return {"id": number, "title": title, "type": kind, "datasource": _SOURCE, "targets": targets,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []}}


def dashboard(name):
    title, variables, panels = DASHBOARDS[name]
    placed, x, y, row = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel[4] > _COLUMNS:
            x, y, row = 0, y + row, 0
        placed.append(_panel(number, panel, x, y))
        x, row = x + panel[4], max(row, placed[-1]["gridPos"]["h"])
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {"title": title, "uid": f"pitcrew-{name}", "tags": ["gpu", "pitcrew"], "schemaVersion": 39, "editable": True,
            "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "browser",
            "templating": {"list": [source, *map(_variable, variables)]}, "annotations": {"list": []}, "panels": placed}


def files():
    """Name to text."""
    return {f"{name}.json": json.dumps(dashboard(name), indent=1, ensure_ascii=False) + "\n" for name in DASHBOARDS}
