/** Buttons and tooltips. */
import { ArrowLeft, Check, Copy } from 'lucide-react';
import { Tooltip } from 'radix-ui';
import { type ComponentProps, type ReactNode, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { cn } from '@/lib/cn';
import { copyText } from '@/lib/dom';
import { showError } from './toast';

const BUTTON_VARIANTS = {
  main: 'bg-accent text-accent-ink border-transparent hover:opacity-90',
  plain: 'bg-raised text-ink border-line hover:border-strong-line hover:bg-sunken',
  quiet: 'bg-transparent text-muted border-transparent hover:text-ink hover:bg-sunken',
  danger: 'bg-raised text-bad border-line hover:bg-bad-soft hover:border-bad',
};
const SIZES = { small: 'h-7 px-2 text-[13px] gap-1.5', normal: 'h-8 px-3 gap-2' };

type ButtonProps = ComponentProps<'button'> & { variant?: keyof typeof BUTTON_VARIANTS; size?: keyof typeof SIZES };

export function Button({
  variant = 'plain',
  size = 'normal',
  className,
  type = 'button',
  ...rest
}: ButtonProps): ReactNode {
  return (
    <button
      // oxlint-disable-next-line react/button-has-type -- it has one, by default "button"
      type={type}
      className={cn(
        'inline-flex shrink-0 items-center justify-center rounded-lg',
        'border font-medium whitespace-nowrap transition-colors',
        'disabled:cursor-default disabled:opacity-45',
        BUTTON_VARIANTS[variant],
        SIZES[size],
        className,
      )}
      {...rest}
    />
  );
}

/** A button with an icon only; the label is its accessible name and tooltip. */
export function IconButton({
  label,
  size = 'normal',
  variant = 'quiet',
  className,
  keys,
  ...rest
}: ButtonProps & { label: string; keys?: string }): ReactNode {
  return (
    <Hint text={keys ? `${label} (${keys})` : label}>
      <Button
        variant={variant}
        aria-label={label}
        className={cn(size === 'small' ? 'size-7 [&_svg]:size-3.5' : 'size-8 [&_svg]:size-4', 'px-0', className)}
        {...rest}
      />
    </Hint>
  );
}

/** Tooltip on hover and focus. */
export function Hint({ text, children }: { text: string; children: ReactNode }): ReactNode {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content
          sideOffset={4}
          collisionPadding={8}
          className="z-50 max-w-72 rounded-md bg-ink pointer-coarse:hidden px-2 py-1 text-xs text-canvas"
        >
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}

interface CopyButtonProps {
  text: string | (() => string);
  label?: string;
  icon?: ReactNode;
  className?: string;
  onCopied?: () => void;
}

/** Copies `text` and shows a check mark for a moment. */
export function CopyButton({ text, label = 'Copy', icon, className, onCopied }: CopyButtonProps): ReactNode {
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
    }, showError);
  };
  return (
    <IconButton label={copied ? 'Copied' : label} size="small" onClick={copy} {...(className ? { className } : {})}>
      {copied ? <Check className="text-good" /> : (icon ?? <Copy />)}
    </IconButton>
  );
}

/** The arrow before a title that leads back to the list. */
export const BackLink = ({ href, label }: { href: string; label: string }): ReactNode => (
  <Link
    href={href}
    aria-label={label}
    className={cn(
      '-ml-1.5 flex size-7 shrink-0 items-center justify-center',
      'rounded-lg text-muted hover:bg-sunken hover:text-ink',
    )}
  >
    <ArrowLeft aria-hidden className="size-4" />
  </Link>
);
