"""The map of fusion with controls, for a notebook: `explore()`. Needs ipywidgets."""

from __future__ import annotations

from matplotlib.figure import Figure

from fgn.chains import CHAINS, Shape, find
from fgn.measure.benchmark import COMPILED, EAGER
from fgn.model import predictions as model
from fgn.model.work import ON_TENSOR_CORES
from fgn.plot import fusion_maps as model_plots
from fgn.precision import PRECISIONS

UNFUSED = (EAGER, COMPILED, "tiled")
FUSED = (model.BEST, *model.FUSED["ieee"], *ON_TENSOR_CORES)
CHANNELS = (8, 16, 32, 64, 128, 256)


def draw(
    chain: str,
    precision: str,
    unfused: str,
    fused: str,
    batch: int,
    width: int,
    channels: int,
    name: str = "h200",
) -> list[Figure] | str:
    """The map with a marked place, and the launches there: two figures, or the reason why there are none."""
    of = model.card(name)
    shape = Shape(batch, width, width, max(1, width // channels))
    version = model.best_version(chain, shape, precision, of) if fused == model.BEST else fused
    for subject in (unfused, version):
        try:
            model.predict(chain, shape, subject, precision, of)
        except ValueError:
            return (
                f"{subject} does not run {precision} with {batch} rows and groups of {channels} channels here"
            )
    frame = model.fusion_map(chain, precision, unfused, fused, channels=channels, of=of)
    recorded = model.recorded_ratios(chain, precision, unfused, fused, name)
    title = f"{find(chain).name}\ngroups of {channels} channels, {of.machine.name}"
    whole = model_plots.fusion_maps([frame], [recorded], title, mark=(batch, width))
    tables = {who: model.predict(chain, shape, who, precision, of) for who in (unfused, version)}
    return [whole, model_plots.composition(tables, title=f"at {batch} × {width} → {width}")]


def explore(name: str = "h200"):
    """Controls, the map, and the launches at one of its places; an ipywidgets box.

    name: the card's folder in profiles/. ImportError if ipywidgets is not installed.
    """
    try:
        import ipywidgets as widgets
    except ImportError as error:
        raise ImportError("explore() needs ipywidgets: pip install 'fgn[notebooks]'") from error
    from IPython.display import display

    late = {"continuous_update": False}
    wide = {"layout": widgets.Layout(width="420px"), "style": {"description_width": "110px"}}
    controls = {
        "chain": widgets.Dropdown(options=list(CHAINS), value=list(CHAINS)[1], description="chain", **wide),
        "precision": widgets.ToggleButtons(options=list(PRECISIONS), value="bf16", description="precision"),
        "unfused": widgets.Dropdown(options=UNFUSED, description="unfused", **wide),
        "fused": widgets.Dropdown(options=FUSED, description="fused", **wide),
        "batch": widgets.SelectionSlider(
            options=model.BATCHES, value=16384, description="batch", **wide, **late
        ),
        "width": widgets.SelectionSlider(
            options=model.WIDTHS, value=1024, description="width", **wide, **late
        ),
        "channels": widgets.SelectionSlider(
            options=CHANNELS, value=model.CHANNELS_OF_GROUP, description="channels, group", **wide, **late
        ),
    }

    def show(**chosen):
        drawn = draw(**chosen, name=name)
        for figure in [drawn] if isinstance(drawn, str) else drawn:
            display(figure)

    left = widgets.VBox([controls[key] for key in ("chain", "unfused", "fused")])
    right = widgets.VBox([controls[key] for key in ("batch", "width", "channels")])
    output = widgets.interactive_output(show, controls)
    return widgets.VBox([controls["precision"], widgets.HBox([left, right]), output])
