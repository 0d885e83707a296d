/** Copies a text, and shows for a moment that it did. */
import { Check, Copy } from 'lucide-react';
import { useEffect, useState, type ReactNode } from 'react';
import { copyText } from '@/lib/dom';
import { IconButton } from './button';
import { tellError } from './toast';

interface Props {
  text: string | (() => string);
  label?: string;
  icon?: ReactNode;
  className?: string;
  onCopied?: () => void;
}

export function CopyButton({ text, label = 'Copy', icon, className, onCopied }: Props): ReactNode {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => {
    copyText(typeof text === 'string' ? text : text()).then(() => {
      setCopied(true);
      onCopied?.();
    }, tellError);
  };
  return (
    <IconButton label={copied ? 'Copied' : label} size="small" onClick={copy} {...(className ? { className } : {})}>
      {copied ? <Check className="text-good" /> : (icon ?? <Copy />)}
    </IconButton>
  );
}
