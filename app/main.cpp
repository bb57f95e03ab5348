#include "run.h"

int main(int argc, char** argv) { return stiefel::app::run(argc, argv); }
