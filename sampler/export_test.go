package sampler

// SampleOne is for the tests outside the package too.
var SampleOne = sampleOne
