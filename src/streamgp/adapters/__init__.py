"""Stream models under the interfaces of scikit-learn, skpro and River. Each needs its library, the core none."""
