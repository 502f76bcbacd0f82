// No line carries markers; dots are a mark of their own.
export function markers(mark) {
  mark.markerStart = mark.markerMid = mark.markerEnd = null;
}

export const applyMarkers = () => {};
export const applyGroupedMarkers = () => {};
