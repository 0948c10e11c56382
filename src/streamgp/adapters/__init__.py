"""Stream models under the interfaces of scikit-learn and River. Each needs its library; the core needs neither."""
