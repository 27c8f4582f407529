"""One way to draw: plain numbers in, SVG out, for notebooks, files, docs and pages alike.

svg.py            elements, and Figure: a drawing with its title and its words
style.py          colours, light and dark
scale.py          numbers -> places, with a few round ones marked
bars.py           bars and points with error bars, grouped by colour
column_charts.py  columns with error bars over an axis of numbers, days or names
lines.py          lines, steps, bands and points over two axes
heat.py           tables of signed numbers; points over shaded cells
tree.py           decision trees
picture.py        Picture: figures one below the other, saved as SVG or PNG
"""
