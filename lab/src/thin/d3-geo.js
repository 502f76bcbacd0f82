// In the place of d3-geo, all of which Plot imports: no view draws a map, and 25 KB are a fourteenth of the page's script.
const absent = () => {
  throw new Error("maps are left out of this build: lab/src/thin/d3-geo.js");
};

// Called once while Plot loads; what it makes is for maps only.
export const geoTransform = () => ({});

export const [
  geoAlbers, geoAlbersUsa, geoAzimuthalEqualArea, geoAzimuthalEquidistant, geoCentroid, geoClipRectangle,
  geoConicConformal, geoConicEqualArea, geoConicEquidistant, geoEqualEarth, geoEquirectangular, geoGnomonic,
  geoGraticule10, geoMercator, geoOrthographic, geoPath, geoStereographic, geoStream,
  geoTransverseMercator,
] = Array(19).fill(absent);
