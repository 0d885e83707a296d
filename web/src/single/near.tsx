/**
 * A thousand rows stay smooth: only those near what one sees are drawn, the others keep their place. Heights may differ;
 * a row that has gone is as high as it was. What holds the focus stays.
 */
import { useEffect, useRef, useState, type ReactNode } from 'react';

const AHEAD = '800px';

type Tell = (near: boolean, height: number) => void;
const told = new WeakMap<Element, Tell>();
const observers = new WeakMap<Element, IntersectionObserver>();

/** One observer for all rows of a scrolling box. */
function observerOf(box: Element): IntersectionObserver {
  const known = observers.get(box);
  if (known) return known;
  const made = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting, boundingClientRect } of entries) told.get(target)?.(isIntersecting, boundingClientRect.height);
    },
    { root: box, rootMargin: AHEAD },
  );
  observers.set(box, made);
  return made;
}

interface Props {
  /** Drawn at once: the first rows need not wait for the observer. */
  first: boolean;
  /** How high it probably is, before it was drawn. */
  height: number;
  className?: string;
  children: () => ReactNode;
}

export function Near({ first, height, className, children }: Props): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(first);
  const [kept, setKept] = useState(height);
  useEffect(() => {
    const element = place.current;
    const box = element?.closest('[data-scrolls]');
    if (!element || !box) return undefined;
    const observer = observerOf(box);
    told.set(element, (now, was) => {
      if (!now && element.contains(document.activeElement)) return;
      if (!now && was > 0) setKept(was);
      setNear(now);
    });
    observer.observe(element);
    return () => observer.unobserve(element);
  }, []);
  return (
    <div ref={place} role="rowgroup" className={className} style={near ? undefined : { height: kept }}>
      {near && children()}
    </div>
  );
}
