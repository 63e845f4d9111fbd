// uPlot, which draws the plots, as a module; its style is plot.css.
export { default as uPlot } from "uplot";
